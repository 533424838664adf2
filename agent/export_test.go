package agent

// TarEnd reads along with a tar: how many of its bytes are the tar's, and whether it has its end.
func TarEnd(p []byte) (used int, whole bool) {
	f := newFollower()
	used = f.feed(p)
	return used, f.done
}

// TarEndInPieces is TarEnd for a tar that comes in pieces of n bytes.
func TarEndInPieces(p []byte, n int) (used int, whole bool) {
	f := newFollower()
	for len(p) > 0 && !f.done {
		piece := p[:min(n, len(p))]
		p = p[len(piece):]
		used += f.feed(piece)
	}
	return used, f.done
}

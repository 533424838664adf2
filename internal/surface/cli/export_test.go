package cli

import (
	"context"
	"io"
	"os"
)

// What is tested from outside, though it is not the package's to offer.
var (
	ParseSize = parseSize
	Folder    = folder
	Printable = printable
	Cut       = cut
	Plural    = plural
	ExitOf    = exitOf
	Ask       = ask
	Say       = (*Program).say
	IsPlain   = isPlain

	WriteEvents = writeEvents
)

const (
	Undecided, Discard, Keep, Commit = undecided, discard, keep, commit
	Sane                             = sane
)

type Decision = decision

func Decide(wish decision, code int, asking bool, work, outside int) decision {
	return circumstances{wish, code, asking, work, outside}.decide()
}

type Capture = capture

// TakeSignals takes the signals of in; it gives what is forwarded, the exit code they
// make, and their end.
func TakeSignals(ctx context.Context, in chan os.Signal) (_ context.Context, forwarded <-chan string, code func() int, stop func()) {
	ctx, s := takeSignals(ctx, in)
	return ctx, s.forward, s.code, s.stop
}

// Screen is a screen's writer, and its tidy.
func Screen(w io.Writer) (io.Writer, func(io.Writer)) {
	s := &screen{}
	return s.writer(w), s.tidy
}

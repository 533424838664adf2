package changes

import (
	"time"

	"golang.org/x/sys/unix"
)

// baseline is Lstat, with the number of a device.
func (h *hostFS) baseline(p Path) (*hostNode, error) {
	fd, err := h.handle(p)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := nodeOf(fd)
	if err != nil {
		return nil, hostError("look at", p, err)
	}
	out := &hostNode{node: *n}
	if n.Type == Device {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return nil, hostError("look at", p, err)
		}
		out.rdev = st.Rdev
	}
	return out, nil
}

// born describes what is at p, and says when it was made: the zero time where the file
// system does not know.
func (h *hostFS) born(p Path) (*Node, time.Time, error) {
	fd, err := h.handle(p)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer unix.Close(fd)
	n, err := nodeOf(fd)
	if err != nil {
		return nil, time.Time{}, hostError("look at", p, err)
	}
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st); err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return n, time.Time{}, nil
	}
	return n, time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)), nil
}

func deviceNumber(major, minor int64) uint64 {
	return unix.Mkdev(uint32(major), uint32(minor)) //nolint:gosec // what is cut off never equals a device of the host
}

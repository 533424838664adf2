//go:build !linux

package changes

import "time"

func (*hostFS) baseline(Path) (*hostNode, error)    { return nil, errHost }
func (*hostFS) born(Path) (*Node, time.Time, error) { return nil, time.Time{}, errHost }

func deviceNumber(major, minor int64) uint64 { return uint64(major)<<32 | uint64(uint32(minor)) }

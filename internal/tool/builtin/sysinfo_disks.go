package builtin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
)

const (
	maxDisks = 32
	diskTime = time.Second // for each: one that hangs must not hide the others
)

// sysDisk is one of what meta has as disks; sizes in bytes.
type sysDisk struct {
	Path   string `json:"path"`
	Type   string `json:"type"`
	Total  uint64 `json:"total"`
	Used   uint64 `json:"used"`
	Free   uint64 `json:"free"`              // for ordinary users
	Failed string `json:"missing,omitempty"` // why the sizes are not known
}

// disksSection tells the file systems on disks, and the one that / is on, which in a
// container is none of those.
func disksSection(ctx context.Context, s *sysinfo) (section, error) {
	mounted, err := disk.PartitionsWithContext(ctx, false)
	root := slices.ContainsFunc(mounted, func(p disk.PartitionStat) bool { return p.Mountpoint == rootPath })
	if !root {
		mounted = append([]disk.PartitionStat{{Mountpoint: rootPath, Device: rootPath}}, mounted...)
	}
	var (
		disks   []sysDisk
		devices []string
	)
	for _, p := range mounted {
		if len(disks) == maxDisks {
			break
		}
		if slices.Contains(devices, p.Device) {
			continue // the same file system, mounted once more
		}
		devices = append(devices, p.Device)
		if d := usage(ctx, s, p); d.Total > 0 || d.Failed != "" {
			disks = append(disks, d)
		}
	}
	if len(disks) == 0 {
		return section{}, errors.Join(errors.New("no file system with a size was found"), err)
	}
	out := section{value: disks}
	for _, d := range disks {
		if d.Failed != "" {
			out.lines = append(out.lines, line("disk", "%s: not known: %s", d.Path, d.Failed))
			continue
		}
		out.lines = append(out.lines, line("disk", "%s (%s): %s used of %s, %s free", d.Path, d.Type, bytes(d.Used), bytes(d.Total), bytes(d.Free)))
	}
	return out, nil
}

// usage asks one file system.
func usage(ctx context.Context, s *sysinfo, p disk.PartitionStat) sysDisk {
	limited, cancel := context.WithTimeout(ctx, diskTime)
	defer cancel()
	got, err := begin(limited, s, func() (*disk.UsageStat, error) { return disk.UsageWithContext(limited, p.Mountpoint) })()
	d := sysDisk{Path: p.Mountpoint, Type: p.Fstype}
	switch {
	case err != nil:
		d.Failed = err.Error()
	case got == nil:
		d.Failed = fmt.Sprintf("%s has no sizes", p.Mountpoint)
	default:
		d.Total, d.Used, d.Free = got.Total, got.Used, got.Free
		if d.Type == "" {
			d.Type = got.Fstype
		}
	}
	return d
}

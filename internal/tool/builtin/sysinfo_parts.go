package builtin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"

	"airlock/internal/changes"
)

func printable(s string) string { return changes.Printable(s) }

// line is a line of the answer.
func line(name, format string, args ...any) string {
	return fmt.Sprintf("%-10s %s", name+":", printable(fmt.Sprintf(format, args...)))
}

// sysOS is what meta has as os. What is not known is empty.
type sysOS struct {
	Name     string `json:"name"` // "linux"
	Distro   string `json:"distro,omitempty"`
	Kernel   string `json:"kernel,omitempty"`
	Arch     string `json:"arch"`
	Hostname string `json:"hostname,omitempty"`
	UptimeS  uint64 `json:"uptime_s,omitempty"`
}

func osSection(ctx context.Context, _ *sysinfo) (section, error) {
	v := sysOS{Name: runtime.GOOS, Arch: runtime.GOARCH}
	if arch, err := host.KernelArch(); err == nil && arch != "" {
		v.Arch = arch
	}
	if platform, _, version, err := host.PlatformInformationWithContext(ctx); err == nil {
		v.Distro = strings.TrimSpace(platform + " " + version)
	}
	v.Kernel, _ = host.KernelVersionWithContext(ctx)
	v.Hostname, _ = os.Hostname()
	v.UptimeS, _ = host.UptimeWithContext(ctx)
	lines := []string{line("os", "%s %s %s", v.Name, v.Kernel, v.Arch)}
	if v.Distro != "" {
		lines = append(lines, line("distro", "%s", v.Distro))
	}
	if v.Hostname != "" {
		lines = append(lines, line("hostname", "%s", v.Hostname))
	}
	if v.UptimeS > 0 {
		lines = append(lines, line("uptime", "%s", time.Duration(min(v.UptimeS, 1<<32))*time.Second))
	}
	return section{lines, v}, nil
}

// sysCPU is what meta has as cpu.
type sysCPU struct {
	Model string    `json:"model,omitempty"`
	Cores int       `json:"cores"`          // logical ones
	Load  []float64 `json:"load,omitempty"` // over 1, 5 and 15 minutes
}

func cpuSection(ctx context.Context, _ *sysinfo) (section, error) {
	v := sysCPU{Cores: runtime.NumCPU()} // those that this process may use
	if n, err := cpu.CountsWithContext(ctx, true); err == nil && n > 0 {
		v.Cores = n
	}
	if infos, err := cpu.InfoWithContext(ctx); err == nil && len(infos) > 0 {
		v.Model = strings.TrimSpace(infos[0].ModelName)
	}
	lines := []string{line("cpu", "%s", strings.TrimSpace(fmt.Sprintf("%s × %d", v.Model, v.Cores)))}
	if avg, err := load.AvgWithContext(ctx); err == nil && avg != nil {
		v.Load = []float64{finite(avg.Load1), finite(avg.Load5), finite(avg.Load15)}
		lines = append(lines, line("load", "%.2f %.2f %.2f", v.Load[0], v.Load[1], v.Load[2]))
	}
	return section{lines, v}, nil
}

// finite is f as JSON can say it.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// sysMemory is what meta has as memory, in bytes.
type sysMemory struct {
	Total     uint64 `json:"total"`
	Available uint64 `json:"available"`
	Used      uint64 `json:"used"`
	SwapTotal uint64 `json:"swap_total"`
	SwapUsed  uint64 `json:"swap_used"`
}

func memorySection(ctx context.Context, _ *sysinfo) (section, error) {
	all, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return section{}, err
	}
	if all == nil || all.Total == 0 {
		return section{}, errors.New("the system does not say how much there is")
	}
	v := sysMemory{Total: all.Total, Available: all.Available, Used: all.Used}
	lines := []string{line("memory", "%s used of %s, %s available", bytes(v.Used), bytes(v.Total), bytes(v.Available))}
	if swap, err := mem.SwapMemoryWithContext(ctx); err == nil && swap != nil && swap.Total > 0 {
		v.SwapTotal, v.SwapUsed = swap.Total, swap.Used
		lines = append(lines, line("swap", "%s used of %s", bytes(v.SwapUsed), bytes(v.SwapTotal)))
	}
	return section{lines, v}, nil
}

// bytes is n for a person.
func bytes(n uint64) string {
	f, unit := float64(n), 0
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for f >= 1023.95 && unit < len(units)-1 {
		f, unit = f/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[unit])
}

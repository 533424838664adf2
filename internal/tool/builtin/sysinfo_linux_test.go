package builtin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"airlock/internal/tool"
)

func TestSysinfoTellsWhatThisMachineIs(t *testing.T) {
	w := newWorld(t)
	res := w.call("sysinfo", map[string]any{})
	if !res.OK || res.Meta["missing"] != nil {
		t.Fatalf("%+v", res)
	}
	text, err := json.Marshal(res.Meta)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		OS     struct{ Name, Kernel, Arch, Hostname string }
		CPU    struct{ Cores int }
		Memory struct{ Total, Available uint64 }
		Disks  []struct {
			Path        string
			Total, Used uint64
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	hostname, _ := os.Hostname()
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	if got.OS.Name != "linux" || got.OS.Hostname != hostname || got.OS.Kernel != strings.TrimSpace(string(release)) || got.OS.Arch == "" {
		t.Errorf("os: %+v", got.OS)
	}
	if got.CPU.Cores < 1 || got.CPU.Cores < runtime.NumCPU() {
		t.Errorf("cpu: %+v, this process may use %d", got.CPU, runtime.NumCPU())
	}
	if got.Memory.Total == 0 || got.Memory.Available > got.Memory.Total {
		t.Errorf("memory: %+v", got.Memory)
	}
	if len(got.Disks) == 0 || got.Disks[0].Total == 0 || got.Disks[0].Used > got.Disks[0].Total {
		t.Errorf("disks: %+v", got.Disks)
	}
	for _, want := range []string{"os:        linux ", "cpu:  ", "memory:  ", "disk:      /"} {
		if !strings.Contains(res.Stdout, want) {
			t.Errorf("stdout %q, want %q in it", res.Stdout, want)
		}
	}
}

func TestSysinfoTellsTheSectionsThatAreAskedFor(t *testing.T) {
	w := newWorld(t)
	res := w.call("sysinfo", map[string]any{"sections": []string{"memory"}})
	if !res.OK || res.Meta["memory"] == nil || res.Meta["os"] != nil || res.Meta["disks"] != nil || strings.Contains(res.Stdout, "cpu") {
		t.Errorf("%+v", res)
	}
	w.wantCode(w.call("sysinfo", map[string]any{"sections": []string{"gpu"}}), tool.InvalidArgs, `"os", "cpu", "memory", "disks"`)
	w.wantCode(w.call("sysinfo", map[string]any{"sections": []string{}}), tool.InvalidArgs)
	w.wantCode(w.call("sysinfo", map[string]any{"sections": []string{"os", "os"}}), tool.InvalidArgs, "the same")
}

func TestSysinfoTellsTheRestWhenAPartCannotBeTold(t *testing.T) {
	t.Setenv("HOST_PROC", filepath.Join(t.TempDir(), "none")) // where it looks for /proc
	w := newWorld(t)
	res := w.call("sysinfo", map[string]any{})
	missing, _ := res.Meta["missing"].([]string)
	if !res.OK || len(missing) != 1 || missing[0] != "memory" || res.Meta["os"] == nil || res.Meta["disks"] == nil {
		t.Errorf("%+v", res)
	}
	if !strings.Contains(res.Stdout, "memory:    not known: ") {
		t.Errorf("stdout %q", res.Stdout)
	}
}

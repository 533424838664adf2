package image_test

import (
	"archive/tar"
	"debug/elf"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// busybox is a program that needs no other file, where the machine has one.
func busybox(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("there is no busybox here; Debian's package is busybox-static")
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Skipf("busybox: %v", err)
	}
	defer f.Close()
	if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Skip("busybox is not static here; Debian's package busybox-static is")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestASmallSystemRuns(t *testing.T) {
	program := busybox(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can change its root folder")
	}
	link := func(name, to string) item { return item{name: name, link: to, kind: tar.TypeSymlink} }
	h := newHub(t, nil)
	h.push(t, "busybox:1", imageOf(t,
		layerOf(t, item{name: "usr/bin/busybox", body: program, mode: 0o755}, link("bin", "usr/bin"), file("etc/motd", "old"), file("etc/gone", "")),
		layerOf(t, item{name: "bin/sh", link: "/usr/bin/busybox", kind: tar.TypeLink}, link("bin/cat", "busybox"), link("bin/ls", "/bin/busybox"), file("etc/motd", "new"), file("etc/.wh.gone", "")),
	))
	img := pull(t, newStore(t, nil), h.ref("busybox:1"), nil)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "cat /etc/motd; echo; ls /etc; ls -d /tmp /proc")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: img.RootDir}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if got := strings.Fields(string(out)); err != nil || strings.Join(got, " ") != "new motd /proc /tmp" {
		t.Errorf("sh said %q, %v", out, err)
	}
}

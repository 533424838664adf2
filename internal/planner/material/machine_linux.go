package material

import "golang.org/x/sys/unix"

var osReleaseFiles = []string{"/etc/os-release", "/usr/lib/os-release"}

// system is the kernel, its release and the machine.
func system() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "Linux"
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
}

package builtin

import (
	"strconv"
	"strings"
)

// signalNumbers are Linux's: where commands run is Linux, whatever this program runs on.
var signalNumbers = map[string]int{
	"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8,
	"SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15,
	"SIGSTKFLT": 16, "SIGXCPU": 24, "SIGXFSZ": 25, "SIGVTALRM": 26, "SIGPROF": 27, "SIGIO": 29, "SIGPWR": 30, "SIGSYS": 31,
}

// signalNumber is the number of a signal that an agent names; 0 where there is none.
func signalNumber(name string) int {
	if n, ok := signalNumbers[name]; ok {
		return n
	}
	// A signal without a name is "signal 42".
	n, err := strconv.Atoi(strings.TrimPrefix(name, "signal "))
	if err != nil || n < 0 || n > 64 {
		return 0
	}
	return n
}

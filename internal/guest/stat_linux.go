package guest

import (
	"strconv"
	"strings"
)

// parseStat reads the fields that matter of /proc/PID/stat. The second field is the
// program's name in parentheses and may hold anything, parentheses too.
func parseStat(line string) (procStat, bool) {
	i := strings.LastIndexByte(line, ')')
	if i < 0 {
		return procStat{}, false
	}
	fields := strings.Fields(line[i+1:]) // state ppid pgrp session …
	if len(fields) < 4 || len(fields[0]) != 1 || !letter(fields[0][0]) {
		return procStat{}, false
	}
	parent, err1 := strconv.Atoi(fields[1])
	session, err2 := strconv.Atoi(fields[3])
	return procStat{state: fields[0][0], parent: parent, session: session}, err1 == nil && err2 == nil
}

func letter(c byte) bool { return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' }

package guest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The user database is read here, not with os/user: that package may ask the system's
// C library, and with it whatever plugins the sandbox's files configure.
const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
)

// An account is a line of /etc/passwd, or a bare uid and gid with no such line.
type account struct {
	name, home string
	uid, gid   uint32
}

// lookUser finds who user is: a name, a uid, or uid:gid. known says that passwd has it.
func lookUser(user string) (who account, known bool, err error) {
	uidText, gidText, both := strings.Cut(user, ":")
	uid, numeric := parseID(uidText)
	if both && !numeric {
		return who, false, fmt.Errorf("user %q: want a name, a uid, or uid:gid in numbers", user)
	}
	who, known, err = findUser(func(a account) bool {
		if numeric {
			return a.uid == uid
		}
		return a.name == user
	})
	switch {
	case err != nil && !numeric:
		return who, false, fmt.Errorf("user %q: %w", user, err)
	case !known && !numeric:
		return who, false, fmt.Errorf("user %q: no such user in %s", user, passwdFile)
	case !known:
		who = account{uid: uid, gid: uid}
	}
	if both {
		gid, ok := parseID(gidText)
		if !ok {
			return who, false, fmt.Errorf("user %q: want a name, a uid, or uid:gid in numbers", user)
		}
		who.gid = gid
	}
	return who, known, nil
}

// ownerOf is who new files belong to when user is the agent's default, nil for itself.
func ownerOf(user string) (*account, error) {
	if user == "" {
		return nil, nil
	}
	who, _, err := lookUser(user)
	if err != nil {
		return nil, err
	}
	return &who, nil
}

// parseID reads a uid or gid. The highest is not one: the system calls take it for
// "leave as it is".
func parseID(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && n != 1<<32-1
}

func findUser(match func(account) bool) (account, bool, error) {
	var found account
	ok := false
	err := eachLine(passwdFile, func(fields []string) bool {
		if len(fields) < 6 {
			return true
		}
		uid, ok1 := parseID(fields[2])
		gid, ok2 := parseID(fields[3])
		a := account{name: fields[0], home: fields[5], uid: uid, gid: gid}
		if ok1 && ok2 && match(a) {
			found, ok = a, true
		}
		return !ok
	})
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return found, ok, err
}

// groupsOf lists the groups that name is a member of, and gid.
func groupsOf(name string, gid uint32) ([]uint32, error) {
	groups := []uint32{gid}
	err := eachLine(groupFile, func(fields []string) bool {
		if len(fields) < 4 || !slices.Contains(strings.Split(fields[3], ","), name) {
			return true
		}
		if id, ok := parseID(fields[2]); ok && !slices.Contains(groups, id) {
			groups = append(groups, id)
		}
		return len(groups) < maxGroups
	})
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return groups, err
}

// eachLine calls f with the fields of each line until it returns false.
func eachLine(path string, f func(fields []string) bool) error {
	data, err := readSmall(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "#") && !f(strings.Split(line, ":")) {
			return nil
		}
	}
	return nil
}

// become works out the credential for user and groups, nil when the agent's own will do.
func become(user string, groups []uint32) (*syscall.Credential, account, bool, error) {
	self := account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	if user == "" && len(groups) == 0 {
		return nil, self, false, nil
	}
	who, known := self, false
	if user != "" {
		var err error
		if who, known, err = lookUser(user); err != nil {
			return nil, who, false, err
		}
	}
	if os.Geteuid() != 0 {
		if len(groups) == 0 && who.uid == self.uid && who.gid == self.gid {
			return nil, who, known, nil
		}
		what := fmt.Sprintf("user %q", user)
		if user == "" {
			what = "groups"
		}
		return nil, who, false, fmt.Errorf("%s: only root can start a command as somebody else, and the agent runs as uid %d", what, self.uid)
	}
	if len(groups) == 0 {
		groups = []uint32{who.gid}
		if known {
			var err error
			if groups, err = groupsOf(who.name, who.gid); err != nil {
				return nil, who, false, fmt.Errorf("user %q: groups: %w", user, err)
			}
		}
	}
	return &syscall.Credential{Uid: who.uid, Gid: who.gid, Groups: groups}, who, known, nil
}

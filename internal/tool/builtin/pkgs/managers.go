package pkgs

import (
	"maps"
	"slices"

	"airlock/internal/lazyregexp"
	"airlock/internal/tool"
)

// A manager is all that is known of one package manager. Nothing else in this package asks
// which one it deals with.
type manager struct {
	name     string
	programs []string // all of them must be there; argv's first words are among them
	systems  []string // the ID and ID_LIKE of /etc/os-release where it is the system's own
	env      map[string]string

	names grammar

	install, remove, update command
	upgrade, upgradeSome    command // all packages; those that are named
	search                  command
	found                   func(output string) []found // in search's output
	literal                 bool                        // search takes words as they are; else regular expressions

	// list writes all installed packages; installed reads it.
	list      []string
	installed func(output string) []Package

	// exact writes the names of packages that begin with the word given, a line each. It
	// is asked about names that this manager would take for a pattern if it did not know
	// them. Nil: it takes no name for a pattern.
	exact []string

	failures []failure
	// end is the signal with which it ends in order when it is canceled; "": SIGTERM.
	end string
	// broken is what a person has to do after it was ended in the middle.
	broken string
}

// A command is one of a manager's. Names and words are appended to argv, which ends with
// "--" wherever the manager knows what that means.
type command struct {
	argv []string
	// dry is argv for saying what would be done; nil: the manager cannot.
	dry []string
	// refused is what a manager writes that simulates by answering no to its own question,
	// and so ends with an error. Nil: dry ends with 0.
	refused *lazyregexp.Regexp
	okCodes []int // exit codes beside 0 that mean success
	empty   []int // exit codes that mean: nothing was found
}

// A failure says what a manager's words, or its exit code, mean. Of several the first that
// fits counts.
type failure struct {
	text *lazyregexp.Regexp // in what it wrote
	exit int                // or its exit code; 0: text alone
	code tool.ErrorCode
	mend string // what can be done about it
}

const (
	asRoot  = "this needs root: run airlock as root, or do it in a sandbox"
	waitFor = "another package manager is at work: try again when it has ended"
	refresh = "is the name right? pkg.manage's action search finds names, update fetches the newest lists"
	network = "a package source could not be reached: check the network and the configured sources"
)

func re(s string) *lazyregexp.Regexp { return lazyregexp.New(s) }

// managers are the package managers that are known; where a machine has several and
// /etc/os-release decides nothing, the first one counts.
var managers = []*manager{&apt, &dnf, &yum, &zypper, &pacman, &apk, &brew}

var apt = manager{
	name:     "apt",
	programs: []string{"apt-get", "apt-cache", "dpkg-query"},
	systems:  []string{"debian", "ubuntu", "raspbian", "linuxmint", "kali"},
	env: map[string]string{
		"DEBIAN_FRONTEND": "noninteractive", "DEBIAN_PRIORITY": "critical", "APT_LISTCHANGES_FRONTEND": "none",
		"NEEDRESTART_SUSPEND": "1", "UCF_FORCE_CONFFOLD": "1",
	},
	// Debian Policy 5.6.1, 5.6.7 and 5.6.12, and apt-get(8) for what follows the name. apt
	// takes name- and name+ for "remove" and "install" whatever the action is: a - at the end
	// is never a name's, and a + only one that exact has found.
	names: grammar{
		like:    "nginx, nginx=1.24*, nginx:amd64 or nginx/stable",
		name:    re(`^[a-z0-9][a-z0-9+.-]*[a-z0-9+](:[a-z0-9][a-z0-9-]*[a-z0-9])?$`),
		pin:     re(`^(=[0-9A-Za-z][0-9A-Za-z.+~:-]*([0-9A-Za-z~]|\*)|=[0-9]\*?|/[a-z][a-z0-9.-]*[a-z0-9])$`),
		pinAt:   "=/",
		pattern: "+.",
	},
	// Use-Pty=0 keeps dpkg in apt's own process group, which a cancel ends. Settings files
	// that were changed by hand are kept.
	install: command{
		argv: []string{"apt-get", "-y", "-q", "-o", "Dpkg::Use-Pty=0", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold", "install", "--"},
		dry:  []string{"apt-get", "-s", "-q", "install", "--"},
	},
	remove: command{
		argv: []string{"apt-get", "-y", "-q", "-o", "Dpkg::Use-Pty=0", "remove", "--"},
		dry:  []string{"apt-get", "-s", "-q", "remove", "--"},
	},
	update: command{argv: []string{"apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update"}},
	upgrade: command{
		argv: []string{"apt-get", "-y", "-q", "-o", "Dpkg::Use-Pty=0", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold", "upgrade"},
		dry:  []string{"apt-get", "-s", "-q", "upgrade"},
	},
	upgradeSome: command{
		argv: []string{"apt-get", "-y", "-q", "-o", "Dpkg::Use-Pty=0", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold", "--only-upgrade", "install", "--"},
		dry:  []string{"apt-get", "-s", "-q", "--only-upgrade", "install", "--"},
	},
	search:    command{argv: []string{"apt-cache", "search", "--"}},
	found:     dashed,
	list:      []string{"dpkg-query", "-W", `-f=${db:Status-Status}\t${Package}\t${Version}\t${Architecture}\n`},
	installed: tabInstalled,
	exact:     []string{"apt-cache", "--all-names", "pkgnames", "--"},
	failures: []failure{
		{re(`Could not get lock|Unable to acquire the dpkg frontend lock.*is another process using it|is locked by another process`), 0, tool.PermissionDenied, waitFor},
		{re(`are you root\?|Permission denied\)`), 0, tool.PermissionDenied, asRoot},
		{re(`dpkg was interrupted`), 0, tool.IOError, "an earlier installation was cut short: run dpkg --configure -a"},
		{re(`returned an error code|Sub-process /usr/bin/dpkg`), 0, tool.IOError, "a package's own script failed: mend the cause that it names, then run dpkg --configure -a"},
		{re(`Unable to locate package|has no installation candidate|Couldn't find any package|(Version|Release) '.*' for '.*' was not found|No packages found`), 0, tool.NotFound, refresh},
		{re(`Failed to fetch|Could not resolve|Some index files failed|Temporary failure`), 0, tool.IOError, network},
		{re(`without --allow-(downgrades|change-held-packages|remove-essential)|Essential packages were removed|essential system-critical`), 0, tool.PermissionDenied, "apt does this only when told explicitly, by a person"},
		{re(`held broken packages|generated breaks|unmet dependencies`), 0, tool.IOError, "what this needs and what is installed do not go together: the list above says why"},
		{re(`cannot be authenticated|is not signed`), 0, tool.PermissionDenied, "the package source is not signed by a key that this machine trusts"},
		{re(`No space left on device|enough free space`), 0, tool.IOError, "make room on the disk"},
	},
	broken: "; a package may be half installed: run dpkg --configure -a",
}

var rpmList = []string{"rpm", "-qa", "--qf", `installed\t%{NAME}\t%{VERSION}-%{RELEASE}\t%{ARCH}\n`}

// dnfNames: name, name.arch, name-version or name-version-release.arch, with an epoch
// perhaps. A slash would be a file's, @ a group's; globs and what is in brackets are left out.
var dnfNames = grammar{
	like: "nginx, nginx-1.24.0 or nginx.x86_64",
	name: re(`^[A-Za-z0-9_]([A-Za-z0-9._+~^-]*(-[0-9]+:[A-Za-z0-9._+~^-]*)?[A-Za-z0-9_+])?$`),
}

// dnf's sentences are those of versions 4 and 5. Version 5 takes "--" for an argument that it
// does not know, so the grammar alone keeps names from being options, here and for yum.
var dnf = manager{
	name:     "dnf",
	programs: []string{"dnf", "rpm"},
	systems:  []string{"fedora", "rhel", "centos", "rocky", "almalinux", "ol"},
	names:    dnfNames,
	install: command{
		argv: []string{"dnf", "--setopt=exit_on_lock=True", "-y", "install"}, dry: []string{"dnf", "--setopt=exit_on_lock=True", "--assumeno", "install"},
		refused: re(`Operation aborted`),
	},
	remove: command{
		argv: []string{"dnf", "--setopt=exit_on_lock=True", "-y", "remove"}, dry: []string{"dnf", "--setopt=exit_on_lock=True", "--assumeno", "remove"},
		refused: re(`Operation aborted`),
	},
	update: command{argv: []string{"dnf", "--setopt=exit_on_lock=True", "-y", "makecache"}},
	upgrade: command{
		argv: []string{"dnf", "--setopt=exit_on_lock=True", "-y", "upgrade"}, dry: []string{"dnf", "--setopt=exit_on_lock=True", "--assumeno", "upgrade"},
		refused: re(`Operation aborted`),
	},
	upgradeSome: command{
		argv: []string{"dnf", "--setopt=exit_on_lock=True", "-y", "upgrade"}, dry: []string{"dnf", "--setopt=exit_on_lock=True", "--assumeno", "upgrade"},
		refused: re(`Operation aborted`),
	},
	search:    command{argv: []string{"dnf", "-q", "search"}},
	found:     rpmFound,
	literal:   true,
	list:      rpmList,
	installed: tabInstalled,
	failures:  rpmFailures,
	broken:    "; the package database may want a look: run dnf check",
}

var rpmFailures = []failure{
	{re(`has to be run with the superuser|need to be root|requires superuser|This command has to be run|Root privileges|Permission denied`), 0, tool.PermissionDenied, asRoot},
	{re(`already locked by|Waiting for process with pid|Failed to obtain .*lock|[Ee]xisting lock|Another app is currently holding|is locked by another`), 0, tool.PermissionDenied, waitFor},
	{re(`Unable to find a match|No match for argument|No package .* available|No packages? (to|marked)`), 0, tool.NotFound, refresh},
	{re(`Failed to download|Cannot download|Cannot find a valid baseurl|Could not resolve|Curl error`), 0, tool.IOError, network},
	{re(`Public key for .* is not installed|GPG check FAILED|is not signed`), 0, tool.PermissionDenied, "the package is not signed by a key that this machine trusts"},
}

// yum is version 3, of CentOS 7 and its like; later ones are dnf by another name.
var yum = manager{
	name:     "yum",
	programs: []string{"yum", "rpm"},
	systems:  []string{"centos", "rhel", "amzn"},
	names:    dnfNames,
	install: command{
		argv: []string{"yum", "--setopt=exit_on_lock=True", "-y", "install"}, dry: []string{"yum", "--setopt=exit_on_lock=True", "--assumeno", "install"},
		refused: re(`Exiting on user [Cc]ommand|Operation aborted`),
	},
	remove: command{
		argv: []string{"yum", "--setopt=exit_on_lock=True", "-y", "remove"}, dry: []string{"yum", "--setopt=exit_on_lock=True", "--assumeno", "remove"},
		refused: re(`Exiting on user [Cc]ommand|Operation aborted`),
	},
	update: command{argv: []string{"yum", "--setopt=exit_on_lock=True", "-y", "makecache"}},
	upgrade: command{
		argv: []string{"yum", "--setopt=exit_on_lock=True", "-y", "update"}, dry: []string{"yum", "--setopt=exit_on_lock=True", "--assumeno", "update"},
		refused: re(`Exiting on user [Cc]ommand|Operation aborted`),
	},
	upgradeSome: command{
		argv: []string{"yum", "--setopt=exit_on_lock=True", "-y", "update"}, dry: []string{"yum", "--setopt=exit_on_lock=True", "--assumeno", "update"},
		refused: re(`Exiting on user [Cc]ommand|Operation aborted`),
	},
	search:    command{argv: []string{"yum", "-q", "search"}, empty: []int{1}},
	found:     rpmFound,
	literal:   true,
	list:      rpmList,
	installed: tabInstalled,
	failures:  rpmFailures,
	broken:    "; the package database may want a look: run yum-complete-transaction",
}

// zypper's exit codes are those of zypper(8), EXIT CODES: from 100 they inform.
var zypper = manager{
	name:     "zypper",
	programs: []string{"zypper", "rpm"},
	systems:  []string{"suse", "opensuse", "opensuse-leap", "opensuse-tumbleweed", "sles"},
	names: grammar{
		like:  "nginx or nginx=1.24.0",
		name:  re(`^[A-Za-z0-9_][A-Za-z0-9._+-]*$`),
		pin:   re(`^=[A-Za-z0-9][A-Za-z0-9._+~^:-]*$`),
		pinAt: "=",
	},
	install: command{
		argv:    []string{"zypper", "--non-interactive", "--no-color", "install", "--"},
		dry:     []string{"zypper", "--non-interactive", "--no-color", "install", "--dry-run", "--"},
		okCodes: zypperOK,
	},
	remove: command{
		argv:    []string{"zypper", "--non-interactive", "--no-color", "remove", "--"},
		dry:     []string{"zypper", "--non-interactive", "--no-color", "remove", "--dry-run", "--"},
		okCodes: zypperOK,
	},
	update: command{argv: []string{"zypper", "--non-interactive", "--no-color", "refresh"}},
	upgrade: command{
		argv:    []string{"zypper", "--non-interactive", "--no-color", "update"},
		dry:     []string{"zypper", "--non-interactive", "--no-color", "update", "--dry-run"},
		okCodes: zypperOK,
	},
	upgradeSome: command{
		argv:    []string{"zypper", "--non-interactive", "--no-color", "update", "--"},
		dry:     []string{"zypper", "--non-interactive", "--no-color", "update", "--dry-run", "--"},
		okCodes: zypperOK,
	},
	search:    command{argv: []string{"zypper", "--non-interactive", "--no-color", "--quiet", "search", "--"}, empty: []int{104}},
	found:     zypperFound,
	literal:   true,
	list:      rpmList,
	installed: tabInstalled,
	failures: []failure{
		{nil, 104, tool.NotFound, refresh},
		{nil, 5, tool.PermissionDenied, asRoot},
		{nil, 7, tool.PermissionDenied, waitFor},
		{nil, 106, tool.IOError, network},
		{nil, 107, tool.IOError, "a package's own script failed: mend the cause that it names, then install the package again"},
		{nil, 6, tool.NotFound, "no package source is configured: see zypper addrepo"},
	},
	broken: "; the package database may want a look: run zypper verify",
}

// 100 to 103: there are updates or security updates, a reboot or a restart of zypper is
// wanted.
var zypperOK = []int{100, 101, 102, 103}

var pacman = manager{
	name:     "pacman",
	programs: []string{"pacman"},
	systems:  []string{"arch", "archlinux", "manjaro", "endeavouros"},
	// pacman(8): a name may stand behind its repository, and before = and a version.
	names: grammar{
		like:  "nginx, extra/nginx or nginx=1.24.0-1",
		name:  re(`^([a-z0-9][a-z0-9_-]*/)?[A-Za-z0-9_][A-Za-z0-9@._+-]*$`),
		pin:   re(`^=[A-Za-z0-9][A-Za-z0-9._+:-]*$`),
		pinAt: "=",
		inner: "/",
	},
	install: command{
		argv: []string{"pacman", "--noconfirm", "--noprogressbar", "--color", "never", "--needed", "-S", "--"},
		dry:  []string{"pacman", "--noconfirm", "--color", "never", "--needed", "-S", "--print", "--print-format", "%n %v", "--"},
	},
	remove: command{
		argv: []string{"pacman", "--noconfirm", "--noprogressbar", "--color", "never", "-R", "--"},
		dry:  []string{"pacman", "--noconfirm", "--color", "never", "-R", "--print", "--print-format", "%n %v", "--"},
	},
	update: command{argv: []string{"pacman", "--noconfirm", "--noprogressbar", "--color", "never", "-S", "-y"}},
	upgrade: command{
		argv: []string{"pacman", "--noconfirm", "--noprogressbar", "--color", "never", "-S", "-u"},
		dry:  []string{"pacman", "--noconfirm", "--color", "never", "-S", "-u", "--print", "--print-format", "%n %v"},
	},
	upgradeSome: command{
		argv: []string{"pacman", "--noconfirm", "--noprogressbar", "--color", "never", "--needed", "-S", "--"},
		dry:  []string{"pacman", "--noconfirm", "--color", "never", "--needed", "-S", "--print", "--print-format", "%n %v", "--"},
	},
	search:    command{argv: []string{"pacman", "--color", "never", "-S", "-s", "--"}, empty: []int{1}},
	found:     pacmanFound,
	list:      []string{"pacman", "--color", "never", "-Q"},
	installed: spacedInstalled,
	failures: []failure{
		{re(`unless you are root`), 0, tool.PermissionDenied, asRoot},
		{re(`unable to lock database`), 0, tool.PermissionDenied, waitFor + "; if there is none, an earlier one was killed: remove /var/lib/pacman/db.lck"},
		{re(`target not found|was not found`), 0, tool.NotFound, refresh},
		{re(`failed retrieving file|failed to synchronize|Could not resolve host`), 0, tool.IOError, network},
		{re(`invalid or corrupted package|is unknown trust|signature from`), 0, tool.PermissionDenied, "the package is damaged, or not signed by a key that this machine trusts"},
	},
	end:    "SIGINT", // it keeps its lock on SIGTERM
	broken: "; where nothing else is at work, remove /var/lib/pacman/db.lck if it is there",
}

var apk = manager{
	name:     "apk",
	programs: []string{"apk"},
	systems:  []string{"alpine", "postmarketos", "wolfi", "chimera"},
	// apk-world(5), without its conflicts (!name), ranges (<, >) and repository tags (@tag).
	names: grammar{
		like:  "nginx, nginx=1.24.0-r0 or nginx~1.24",
		name:  re(`^[A-Za-z0-9_][A-Za-z0-9._+-]*$`),
		pin:   re(`^[=~][A-Za-z0-9][A-Za-z0-9._-]*$`),
		pinAt: "=~",
	},
	install:     command{argv: []string{"apk", "--no-progress", "add", "--"}, dry: []string{"apk", "--no-progress", "--simulate", "add", "--"}},
	remove:      command{argv: []string{"apk", "--no-progress", "del", "--"}, dry: []string{"apk", "--no-progress", "--simulate", "del", "--"}},
	update:      command{argv: []string{"apk", "--no-progress", "update"}},
	upgrade:     command{argv: []string{"apk", "--no-progress", "upgrade"}, dry: []string{"apk", "--no-progress", "--simulate", "upgrade"}},
	upgradeSome: command{argv: []string{"apk", "--no-progress", "add", "--upgrade", "--"}, dry: []string{"apk", "--no-progress", "--simulate", "add", "--upgrade", "--"}},
	search:      command{argv: []string{"apk", "search", "-v", "--"}},
	found:       apkFound,
	literal:     true,
	list:        []string{"apk", "info", "-v"},
	installed:   apkInstalled,
	failures: []failure{
		{re(`Unable to lock database`), 0, tool.PermissionDenied, waitFor + ", or " + asRoot},
		{re(`Permission denied`), 0, tool.PermissionDenied, asRoot},
		{re(`temporary error|network error|could not connect|DNS`), 0, tool.IOError, network}, // it then knows no package either
		{re(`no such package`), 0, tool.NotFound, refresh},
		{re(`UNTRUSTED signature`), 0, tool.PermissionDenied, "the package is not signed by a key that this machine trusts"},
	},
	broken: "; the package database may want a look: run apk fix",
}

// brew knows no "--" for every command, so the grammar alone keeps names from being
// options. A name with a slash would fetch somebody's own formula: it is none.
var brew = manager{
	name:     "brew",
	programs: []string{"brew"},
	systems:  []string{"macos"},
	env: map[string]string{
		"NONINTERACTIVE": "1", "HOMEBREW_NO_AUTO_UPDATE": "1", "HOMEBREW_NO_ANALYTICS": "1", "HOMEBREW_NO_ENV_HINTS": "1",
		"HOMEBREW_NO_COLOR": "1", "HOMEBREW_NO_EMOJI": "1", "HOMEBREW_NO_INSTALL_UPGRADE": "1",
	},
	names:       grammar{like: "nginx or python@3.12", name: re(`^[A-Za-z0-9][A-Za-z0-9@._+-]*$`)},
	install:     command{argv: []string{"brew", "install"}, dry: []string{"brew", "install", "--dry-run"}},
	remove:      command{argv: []string{"brew", "uninstall"}},
	update:      command{argv: []string{"brew", "update"}},
	upgrade:     command{argv: []string{"brew", "upgrade"}, dry: []string{"brew", "upgrade", "--dry-run"}},
	upgradeSome: command{argv: []string{"brew", "upgrade"}, dry: []string{"brew", "upgrade", "--dry-run"}},
	search:      command{argv: []string{"brew", "search"}, empty: []int{1}},
	found:       brewFound,
	literal:     true,
	list:        []string{"brew", "list", "--versions"},
	installed:   spacedInstalled,
	failures: []failure{
		{re(`Running Homebrew as root`), 0, tool.PermissionDenied, "Homebrew does not work as root: run airlock as the user who owns it"},
		{re(`are not writable|Permission denied`), 0, tool.PermissionDenied, "run airlock as the user who owns Homebrew's folders"},
		{re(`No available formula|No formulae or casks found|No such keg`), 0, tool.NotFound, refresh},
		{re(`process has already locked`), 0, tool.PermissionDenied, waitFor},
		{re(`Failed to download|Could not resolve host|curl: \(`), 0, tool.IOError, network},
	},
	broken: "; run brew doctor",
}

// succeeded reports whether an exit code means that a command did its work.
func (c *command) succeeded(exit int) bool { return exit == 0 || slices.Contains(c.okCodes, exit) }

// environment is what a manager's programs get beside the machine's own.
func (m *manager) environment() map[string]string {
	env := map[string]string{"NO_COLOR": "1"}
	maps.Copy(env, m.env)
	return env
}

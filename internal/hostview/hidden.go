// Package hostview decides what of the host a sandbox sees: which paths are hidden from
// it, and which of the environment it is given. It holds the lists and what a person
// may change about them; drivers only carry them out.
package hostview

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// homeSecrets are hidden below the home folder.
var homeSecrets = []string{
	// Keys and credentials.
	".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".config/gh", ".config/hub", ".kube", ".docker/config.json",
	".netrc", ".npmrc", ".pypirc", ".git-credentials", ".config/git/credentials", ".password-store",
	".local/share/keyrings", ".local/share/kwalletd", ".config/op", ".config/doctl", ".config/rclone", ".config/hcloud",
	".terraform.d/credentials.tfrc.json", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
	".config/containers/auth.json", ".vault-token", ".oci", ".bluemix", ".s3cfg", ".boto", ".my.cnf", ".pgpass",
	".config/sops", ".config/age", ".config/Bitwarden", ".config/Bitwarden CLI", ".config/1Password", ".config/Signal",
	".config/github-copilot", ".claude/.credentials.json", ".codex/auth.json", ".gemini/oauth_creds.json",
	// What a person typed.
	".bash_history", ".zsh_history", ".local/share/fish/fish_history", ".python_history", ".node_repl_history",
	".psql_history", ".mysql_history", ".sqlite_history", ".rediscli_history", ".lesshst", ".viminfo", ".histfile",
	".local/state/bash/history", ".local/state/zsh/history",
	// Browser profiles.
	".mozilla", ".config/google-chrome", ".config/google-chrome-beta", ".config/chromium", ".config/BraveSoftware",
	".config/microsoft-edge", ".config/opera", ".config/vivaldi", ".thunderbird", ".librewolf",
	".var/app/org.mozilla.firefox", ".var/app/com.google.Chrome", "snap/firefox", "snap/chromium",
}

// systemSecrets are hidden wherever they are; a pattern is filepath.Match's.
var systemSecrets = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d",
	"/etc/ssl/private", "/etc/ssh/ssh_host_*_key", "/etc/pki/tls/private", "/etc/letsencrypt",
	"/etc/krb5.keytab", "/etc/NetworkManager/system-connections", "/etc/wireguard", "/etc/openvpn",
	"/etc/docker/key.json", "/etc/kubernetes", "/etc/rancher", "/etc/netplan", "/etc/wpa_supplicant",
	"/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/sss/secrets", "/var/log/journal", "/var/spool/cron",
	"/run/user", "/run/secrets", "/run/credentials", "/run/sudo", "/run/screen", "/tmp/tmux-*", "/tmp/ssh-*", "/tmp/.X11-unix",
}

// Rules is what a person says of hidden paths beyond the lists.
type Rules struct {
	Homes   []string // the person's home folders: what the account says, and $HOME
	State   []string // Airlock's own folders: hidden whatever Show says
	WorkDir string   // never hidden as another user's home

	// Settings are folders of Airlock's own settings: a sandbox sees them, and nothing that it
	// changes there is ever let out, whatever Show says.
	Settings []string

	Hide []string // hidden as well
	Show []string // not hidden, with all below
}

// Hidden lists the paths to hide: those that exist now, absolute, sorted, with every link
// on the way resolved; of a link also what it leads to. A path in Show that lies below a
// hidden folder is spared by hiding the folder's other content. A working folder that
// would be hidden is an error.
func Hidden(r *Rules) ([]string, error) {
	hide, err := cleaned("hide", r.Hide, nil)
	if err != nil {
		return nil, err
	}
	show, err := cleaned("show", r.Show, r.secretPlaces())
	if err != nil {
		return nil, err
	}
	rules := *r
	rules.Homes = append(slices.Clone(r.Homes), places(r.Homes)...)
	show, state := places(show), places(r.State)
	// What was said to be hidden is, even below what was said to be shown.
	hide = append(hide, slices.DeleteFunc(defaults(&rules), func(p string) bool { return coveredBy(place(p), show) })...)
	hide = append(hide, state...)
	var out []string
	for _, name := range hide {
		real, err := resolve(name, show)
		if err != nil {
			return nil, err
		}
		for _, p := range real {
			spared, err := spare(p, show, state)
			if err != nil {
				return nil, err
			}
			if in := covering(r.WorkDir, spared); in != "" {
				return nil, fmt.Errorf("the working folder %s lies in %s, which is hidden from sandboxes; use --show %s to allow it", r.WorkDir, in, in)
			}
			out = append(out, spared...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// defaults are the lists' paths that exist.
func defaults(r *Rules) []string {
	var out []string
	add := func(p string) {
		if _, err := os.Lstat(p); err == nil {
			out = append(out, p)
		}
	}
	for _, home := range r.Homes {
		for _, rel := range homeSecrets {
			add(filepath.Join(home, rel))
		}
	}
	for _, pattern := range systemSecrets {
		found, _ := filepath.Glob(pattern) // the patterns are ours, and well formed
		out = append(out, slices.DeleteFunc(found, planted)...)
	}
	out = append(out, otherHomes(r)...)
	return append(out, sockets("/run", 3)...)
}

// otherHomes are the homes of others, as far as they are where homes are.
func otherHomes(r *Rules) []string {
	var out []string
	entries, err := os.ReadDir("/home")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		p := filepath.Join("/home", e.Name())
		to := place(p)
		if t := target(to); t != "" {
			to = t
		}
		if st, err := os.Stat(p); err != nil || !st.IsDir() || to == "/" || r.lives(p) || r.lives(to) {
			continue
		}
		out = append(out, p)
	}
	if !r.lives("/root") {
		out = append(out, "/root")
	}
	return out
}

// lives reports whether the person's home or the working folder is in p.
func (r *Rules) lives(p string) bool {
	return within(r.WorkDir, p) || slices.ContainsFunc(r.Homes, func(h string) bool { return within(h, p) })
}

// sockets are the sockets below dir, to a depth: what listens there acts for a person.
// A sandbox could not connect to them anyway.
func sockets(dir string, depth int) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		switch {
		case e.Type()&fs.ModeSocket != 0:
			out = append(out, p)
		case e.IsDir() && depth > 1:
			out = append(out, sockets(p, depth-1)...)
		}
	}
	return out
}

// spare replaces a hidden path that has shown ones below it by the rest of its content.
func spare(p string, show, state []string) ([]string, error) {
	if coveredBy(p, state) || !holdsShown(p, show) {
		return []string{p}, nil
	}
	entries, err := os.ReadDir(p)
	if err != nil {
		return nil, fmt.Errorf("show a path below %s: %w", p, err)
	}
	var out []string
	for _, e := range entries {
		child := filepath.Join(p, e.Name())
		if coveredBy(child, show) {
			continue
		}
		rest, err := spare(child, show, state)
		if err != nil {
			return nil, err
		}
		out = append(out, rest...)
	}
	return out, nil
}

// secretPlaces are the paths of the list below the homes.
func (r *Rules) secretPlaces() []string {
	var out []string
	for _, home := range append(slices.Clone(r.Homes), places(r.Homes)...) {
		for _, rel := range homeSecrets {
			out = append(out, filepath.Join(home, rel))
		}
	}
	return out
}

// cleaned makes paths absolute and tells of those that cannot be meant: that do not exist,
// but for those in may.
func cleaned(what string, paths, may []string) ([]string, error) {
	var out []string
	for _, p := range paths {
		if p == "" {
			return nil, fmt.Errorf("--%s: the path is empty", what)
		}
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, fmt.Errorf("--%s %s: %w", what, p, err)
		}
		if abs == "/" {
			return nil, fmt.Errorf("--%s /: the root folder itself cannot be meant", what)
		}
		if _, err := os.Lstat(abs); errors.Is(err, fs.ErrNotExist) && !slices.Contains(may, abs) {
			return nil, fmt.Errorf("--%s %s: there is no such path", what, p)
		}
		out = append(out, abs)
	}
	return out, nil
}

// within reports whether p is dir or lies below it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, dir+"/")
}

func coveredBy(p string, dirs []string) bool { return covering(p, dirs) != "" }

// covering is the first of dirs that p is or lies below.
func covering(p string, dirs []string) string {
	for _, d := range dirs {
		if within(p, d) {
			return d
		}
	}
	return ""
}

// Guarded lists the places where secrets of the person would be, whether or not there are
// any yet, and Airlock's own settings: what a sandbox makes there, such as keys that let
// somebody in or a policy that allows more, is never let out. Show spares what it names
// and the folders above that, but no settings.
func Guarded(r *Rules) ([]string, error) {
	show, err := cleaned("show", r.Show, r.secretPlaces())
	if err != nil {
		return nil, err
	}
	show = places(show)
	var out []string
	for _, p := range places(r.secretPlaces()) {
		if !coveredBy(p, show) && !holdsShown(p, show) {
			out = append(out, p)
		}
	}
	out = append(out, places(r.Settings)...)
	slices.Sort(out)
	return slices.Compact(out), nil
}

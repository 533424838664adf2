package journal_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"airlock/internal/tool/bridge/journal"
	"airlock/internal/tool/bridge/setup"
)

// logged is what a file holds after something was logged to it.
func logged(t *testing.T, level string, do func(*slog.Logger)) string {
	t.Helper()
	l := &setup.Logging{File: filepath.Join(t.TempDir(), "bridge.log"), Level: level}
	log, closer, err := journal.Open(l)
	if err != nil {
		t.Fatal(err)
	}
	do(log)
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	return read(t, l.File)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// at is when records of the tests were made: a time of day that no zone has as its own.
var at = time.Date(2026, 11, 22, 9, 30, 45, 987654321, time.Local)

func record(level slog.Level, message string, attrs ...slog.Attr) func(*slog.Logger) {
	return func(log *slog.Logger) {
		r := slog.NewRecord(at, level, message, 0)
		r.AddAttrs(attrs...)
		if ctx := context.Background(); log.Enabled(ctx, level) {
			_ = log.Handler().Handle(ctx, r) // it has no error
		}
	}
}

func TestLines(t *testing.T) {
	const head = "[2026-11-22 09:30:45] "
	token := "ghp" + "_" + strings.Repeat("aB3dE6", 6)
	key := "-----BEGIN " + "PRIVATE KEY-----\n" + strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n", 4) + "-----END " + "PRIVATE KEY-----"
	for name, c := range map[string]struct {
		level string
		do    func(*slog.Logger)
		want  string
	}{
		"a message is the bridge's":                {"INFO", record(slog.LevelInfo, "hello"), head + "INFO [bridge]: hello\n"},
		"a warning is WARNING, as Python has it":   {"INFO", record(slog.LevelWarn, "oh"), head + "WARNING [bridge]: oh\n"},
		"an error is ERROR":                        {"ERROR", record(slog.LevelError, "no"), head + "ERROR [bridge]: no\n"},
		"a level between two is the lower one":     {"DEBUG", record(slog.LevelInfo+1, "x"), head + "INFO [bridge]: x\n"},
		"what is below the level is left out":      {"WARNING", record(slog.LevelInfo, "x"), ""},
		"debugging is shown where it is asked for": {"DEBUG", record(slog.LevelDebug, "x"), head + "DEBUG [bridge]: x\n"},
		"a logger's name stands in brackets": {"INFO", func(l *slog.Logger) {
			record(slog.LevelInfo, "from stderr")(l.With(journal.Name, "watch_collect"))
		}, head + "INFO [watch_collect]: from stderr\n"},
		"a record may name the logger, for itself alone": {"INFO", func(l *slog.Logger) {
			record(slog.LevelInfo, "1", slog.String(journal.Name, "a"))(l)
			record(slog.LevelInfo, "2")(l)
		}, head + "INFO [a]: 1\n" + head + "INFO [bridge]: 2\n"},
		"a name does not end its brackets, nor its line": {"INFO", func(l *slog.Logger) {
			record(slog.LevelInfo, "x")(l.With(journal.Name, "a\n[b"))
		}, head + `INFO [a\n[b]: x` + "\n"},
		"attributes stand behind": {"INFO", record(slog.LevelInfo, "m", slog.Int("n", 3), slog.Duration("took", time.Second)), head + "INFO [bridge]: m n=3 took=1s\n"},
		"a value with spaces is quoted": {
			"INFO", record(slog.LevelInfo, "m", slog.String("a", `b "c" d=e`), slog.String("f", "")),
			head + `INFO [bridge]: m a="b \"c\" d=e" f=""` + "\n",
		},
		"groups stand before keys": {"INFO", func(l *slog.Logger) {
			record(slog.LevelInfo, "m", slog.Group("h", slog.Int("i", 1), slog.Group("", slog.Int("j", 2))), slog.Attr{})(l.With("a", 1).WithGroup("g").With("b", 2))
		}, head + "INFO [bridge]: m a=1 g.b=2 g.h.i=1 g.h.j=2\n"},
		"a message cannot forge a line": {
			"INFO", record(slog.LevelInfo, "x\n[2026-11-22 09:30:45] INFO [bridge]: forged\r\u2028\u0085end"),
			head + `INFO [bridge]: x\n[2026-11-22 09:30:45] INFO [bridge]: forged\r\u2028\u0085end` + "\n",
		},
		"nor can an attribute's value, nor its key": {
			"INFO", record(slog.LevelInfo, "m", slog.String("k\nk", "v\nv")),
			head + `INFO [bridge]: m k\nk=v\nv` + "\n",
		},
		"what controls a terminal is shown instead":  {"INFO", record(slog.LevelInfo, "\x1b[2J\x07\x00\u202e"), head + `INFO [bridge]: \x1b[2J\x07\x00\u202e` + "\n"},
		"what is no UTF-8 is shown as bytes":         {"INFO", record(slog.LevelInfo, "a\xff\xc3"), head + `INFO [bridge]: a\xff\xc3` + "\n"},
		"text of any language is left alone":         {"INFO", record(slog.LevelInfo, "Übergröße 日本 \\n"), head + "INFO [bridge]: Übergröße 日本 \\n\n"},
		"a token is replaced":                        {"INFO", record(slog.LevelInfo, "got "+token), head + "INFO [bridge]: got [redacted:github-token]\n"},
		"so is one in a value":                       {"INFO", record(slog.LevelInfo, "m", slog.String("a", "b "+token)), head + `INFO [bridge]: m a="b [redacted:github-token]"` + "\n"},
		"a key of several lines is found in a value": {"INFO", record(slog.LevelInfo, "m", slog.String("a", key)), head + "INFO [bridge]: m a=[redacted:private-key]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := logged(t, c.level, c.do); got != c.want {
				t.Errorf("the log holds\n%q, want\n%q", got, c.want)
			}
		})
	}
}

func TestALineIsBounded(t *testing.T) {
	token := "ghp" + "_" + strings.Repeat("aB3dE6", 6)
	key := "-----BEGIN " + "PRIVATE KEY-----\n" + strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n", 100) + "-----END " + "PRIVATE KEY-----\n"
	keys := strings.Repeat(key, 192<<10/len(key))
	for name, message := range map[string]string{
		"a little too long":            strings.Repeat("x", 64<<10),
		"very long":                    strings.Repeat("x", 8<<20),
		"of long characters":           strings.Repeat("日", 64<<10),
		"of what has to be escaped":    strings.Repeat("\x1b", 40<<10),
		"with a secret at every place": strings.Repeat(token+" ", 64<<10),
		"that is cut within a secret":  strings.Repeat("x", 192<<10-20) + " " + token,
		"that is cut within one behind others, which are short once they are replaced": keys + strings.Repeat("x", 192<<10-20-len(keys)) + " " + token,
	} {
		t.Run(name, func(t *testing.T) {
			got := logged(t, "INFO", func(l *slog.Logger) {
				record(slog.LevelInfo, message)(l)
				record(slog.LevelInfo, "m", slog.String("a", message), slog.String("b", message))(l)
			})
			lines := strings.SplitAfter(strings.TrimSuffix(got, "\n"), "\n")
			if len(lines) != 2 {
				t.Fatalf("%d lines, want 2", len(lines))
			}
			for _, line := range lines {
				if len(line) > 64<<10 || !utf8.ValidString(line) {
					t.Errorf("a line has %d bytes; is text: %v", len(line), utf8.ValidString(line))
				}
				if strings.Contains(line, "ghp_") {
					t.Error("a line holds a secret, or a part of one")
				}
				if !regexp.MustCompile(` … \(\d+ bytes more\)"?\n?$`).MatchString(line) {
					t.Errorf("a line that was cut does not say so: it ends in %q", line[len(line)-60:])
				}
			}
		})
	}
}

func TestNothingIsMadeBeforeTheFirstLine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	l := &setup.Logging{File: filepath.Join(dir, "bridge.log"), Level: "WARNING"}
	log, closer, err := journal.Open(l)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("left out")
	if err := journal.Check(l); err != nil {
		t.Errorf("Check of a log whose folder can be made: %v", err)
	}
	if _, err := os.Lstat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder before the first line: err = %v, want that there is none", err)
	}
	log.Warn("now")
	for path, want := range map[string]fs.FileMode{filepath.Dir(dir): 0o700, dir: 0o700, l.File: 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %v", path, st.Mode(), err, want)
		}
	}
	for range 2 {
		if err := closer.Close(); err != nil {
			t.Error(err)
		}
	}
	log.Warn("too late")
	if got := read(t, l.File); strings.Count(got, "\n") != 1 {
		t.Errorf("the log holds %q, want one line", got)
	}
}

func TestALogThatNobodyWants(t *testing.T) {
	for name, l := range map[string]*setup.Logging{"none": nil, "the null device": {File: os.DevNull, Level: "INFO"}} {
		log, closer, err := journal.Open(l)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		log.Error("gone")
		if err := closer.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnUnknownLevel(t *testing.T) {
	log, closer, err := journal.Open(&setup.Logging{File: filepath.Join(t.TempDir(), "x"), Level: "LOUD"})
	if err == nil || !strings.Contains(err.Error(), `"LOUD"`) || log == nil || closer == nil {
		t.Errorf("Open = %v, %v, %v", log, closer, err)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("message", "key", "value")
	f.Add("a\nb", "k\x1b", "\xff\u202e\"")
	f.Add("password: hunter2", "token", "x y=z")
	f.Fuzz(func(t *testing.T, message, key, value string) {
		got := logged(t, "INFO", func(l *slog.Logger) {
			record(slog.LevelInfo, message, slog.String(key, value))(l.With(journal.Name, value))
		})
		if !strings.HasSuffix(got, "\n") || strings.Count(got, "\n") != 1 || len(got) > 64<<10 {
			t.Fatalf("it is not one line: %q", got)
		}
		if !utf8.ValidString(got) || strings.ContainsFunc(got[:len(got)-1], func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("it holds what is not printable: %q", got)
		}
	})
}

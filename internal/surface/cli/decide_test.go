package cli_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"airlock/internal/surface/cli"
)

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		name          string
		wish          cli.Decision
		code          int
		asking        bool
		work, outside int
		want          cli.Decision
	}{
		{"silence without a terminal lets nothing out", cli.Undecided, 0, false, 3, 0, cli.Discard},
		{"nor does it keep what is outside", cli.Undecided, 0, false, 0, 3, cli.Discard},
		{"a person is asked about work", cli.Undecided, 0, true, 1, 0, cli.Undecided},
		{"after a failure, too", cli.Undecided, 1, true, 1, 5, cli.Undecided},
		{"nobody is asked about what no commit would let out, and it is kept", cli.Undecided, 0, true, 0, 1, cli.Keep},
		{"noise alone is thrown away", cli.Undecided, 0, true, 0, 0, cli.Discard},
		{"--commit commits work", cli.Commit, 0, false, 1, 0, cli.Commit},
		{"on a terminal, too, without asking", cli.Commit, 0, true, 1, 2, cli.Commit},
		{"--commit keeps what a command that failed did", cli.Commit, 1, false, 1, 0, cli.Keep},
		{"a negative code is a failure, too", cli.Commit, -1, false, 1, 0, cli.Keep},
		{"--commit keeps what is only outside", cli.Commit, 0, false, 0, 1, cli.Keep},
		{"--commit throws noise away", cli.Commit, 0, false, 0, 0, cli.Discard},
		{"--commit throws noise away after a failure", cli.Commit, 1, true, 0, 0, cli.Discard},
		{"--keep keeps", cli.Keep, 1, false, 1, 0, cli.Keep},
		{"--keep keeps noise, too", cli.Keep, 0, true, 0, 0, cli.Keep},
		{"--discard discards", cli.Discard, 0, true, 1, 1, cli.Discard},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := cli.Decide(tt.wish, tt.code, tt.asking, tt.work, tt.outside); got != tt.want {
				t.Errorf("decide = %d, want %d", got, tt.want)
			}
		})
	}
}

// TestOnlyTwoWaysOut: whatever the circumstances, changes leave by --commit or an answer.
func TestOnlyTwoWaysOut(t *testing.T) {
	for _, wish := range []cli.Decision{cli.Undecided, cli.Discard, cli.Keep, cli.Commit} {
		for _, code := range []int{-1, 0, 1, 130} {
			for i := range 18 {
				asking, work, outside := i%2 == 0, i/2%3, i/6
				if cli.Decide(wish, code, asking, work, outside) == cli.Commit && (wish != cli.Commit || code != 0 || work == 0) {
					t.Errorf("wish %d, code %d, asking %t, work %d, outside %d: committed", wish, code, asking, work, outside)
				}
			}
		}
	}
}

func TestAsk(t *testing.T) {
	for _, tt := range []struct {
		name, typed string
		want        cli.Decision
		shown       int
		says        string
	}{
		{"c commits", "c\n", cli.Commit, 0, ""},
		{"the word does, too", " Commit \r\n", cli.Commit, 0, ""},
		{"x discards", "x\n", cli.Discard, 0, ""},
		{"k keeps", "k\n", cli.Keep, 0, ""},
		{"an end keeps", "", cli.Keep, 0, ""},
		{"a letter without Enter is no answer", "c", cli.Keep, 0, ""},
		{"silence is no answer", "\n\n\nk\n", cli.Keep, 0, ""},
		{"yes is no answer", "y\nyes\nk\n", cli.Keep, 0, "x throws them away"},
		{"d shows as often as it is asked", "d\ndiff\nc\n", cli.Commit, 2, ""},
		{"a failure to show is said, and the question stays", "d\nx\n", cli.Discard, 1, "airlock: torn"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			shown := 0
			got := cli.Ask(strings.NewReader(tt.typed), &out, func() error {
				shown++
				if strings.HasPrefix(tt.says, "airlock:") {
					return errors.New("torn")
				}
				return nil
			})
			if got != tt.want || shown != tt.shown || !strings.Contains(out.String(), tt.says) {
				t.Errorf("ask = %d, shown %d times, want %d and %d; it said %q, want %q", got, shown, tt.want, tt.shown, out.String(), tt.says)
			}
		})
	}
}

package choice_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"airlock/internal/planner/choice"
)

// As another user, this test's program is a model server; on a terminal of its own, it is
// airlock.
func TestMain(m *testing.M) {
	if os.Getenv("AIRLOCK_TEST_TERMINAL") != "" {
		chooseOnTerminal()
		return
	}
	if os.Getenv("AIRLOCK_TEST_LISTENER") != "" {
		serveAsSomebody()
		return
	}
	os.Exit(m.Run())
}

func serveAsSomebody() {
	l, err := net.Listen("tcp", os.Getenv("AIRLOCK_TEST_LISTENER"))
	if err != nil {
		fmt.Println("error", err)
		return
	}
	fmt.Println(l.Addr())
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			conn.Close()
			continue
		}
		body := `{"models":[{"name":"mine"}]}`
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body))
	}
}

func TestAnotherUsersServerIsLeftAlone(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only the superuser can start a server as another user")
	}
	for _, tt := range []struct {
		name, listen string
		uid          uint32
		err          string
	}{
		{"our own", "127.0.0.1:0", 0, ""},
		{"a system account's", "127.0.0.1:0", 998, ""},
		{"another person's", "127.0.0.1:0", 1234, "another user (uid 1234) listens there; AIRLOCK_PROVIDER=ollama uses it all the same"},
		{"another person's that listens everywhere", "0.0.0.0:0", 1234, "another user (uid 1234) listens there"},
		{"another person's that listens everywhere with IPv6", "[::]:0", 1234, "another user (uid 1234) listens there"},
		{"nobody's", "127.0.0.1:0", 65534, "another user (uid 65534) listens there"},
		{"another person's on IPv6", "[::1]:0", 1234, "another user (uid 1234) listens there"},
		{"our own on IPv6", "[::1]:0", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			address := listenAs(t, tt.listen, tt.uid)
			opts := &choice.Options{Environ: vars{"OLLAMA_HOST": address}.get, Dial: instead(map[string]string{address: address})}
			if tt.err != "" {
				check(t, opts, want{err: tt.err})
				opts.Environ = vars{"OLLAMA_HOST": address, "AIRLOCK_PROVIDER": "ollama"}.get
				check(t, opts, want{provider: "ollama", model: "mine", endpoint: "http://" + address, why: "AIRLOCK_PROVIDER"})
				return
			}
			check(t, opts, want{provider: "ollama", model: "mine", endpoint: "http://" + address, why: "found on " + address})
		})
	}
}

// listenAs starts a server as a user.
func listenAs(t *testing.T, listen string, uid uint32) string {
	t.Helper()
	program, err := os.Open("/proc/self/exe") // the file itself may lie where others do not get
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{program}
	cmd.Dir = "/"
	cmd.Env = []string{"AIRLOCK_TEST_LISTENER=" + listen}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	line := make([]byte, 200)
	n, err := out.Read(line)
	text := strings.TrimSpace(string(line[:n]))
	if err != nil || strings.HasPrefix(text, "error") {
		t.Fatalf("no server: %q, %v", text, err)
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(listen, "[::1]") {
		return net.JoinHostPort("::1", port)
	}
	return net.JoinHostPort("127.0.0.1", port)
}

const socketTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2CAA 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 1151 1 0 100 0 0 10 0
   1: 0100007F:2CAA 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1002        0 1152 1 0 100 0 0 10 0
   2: 00000000:2CAA 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1003        0 1153 1 0 100 0 0 10 0
   3: 0200007F:2CAA 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1004        0 1154 1 0 100 0 0 10 0
   4: 0100007F:2CAB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1005        0 1155 1 0 100 0 0 10 0
   5: 0000000000000000FFFF00000100007F:2CAA 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1006        0 1156
   6: 00000000000000000000000001000000:2CAA 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1007        0 1157
`

func TestListeners(t *testing.T) {
	got, err := choice.Listeners(strings.NewReader(socketTable), netip.MustParseAddrPort("127.0.0.1:11434"))
	if want := []int{1001, 1003, 1006}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Listeners = %v, %v, want %v", got, err, want)
	}
	got, err = choice.Listeners(strings.NewReader(socketTable), netip.MustParseAddrPort("[::1]:11434"))
	if want := []int{1003, 1007}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Listeners = %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"0: 0100007:2CAA x 0A a b c 0", "0: 0100007F:2CAAA x 0A a b c 0", "0: zz x 0A a b c 0", "0: 0100007F:2CAA x 0A a b c -1"} {
		if got, err := choice.Listeners(strings.NewReader(bad), netip.MustParseAddrPort("127.0.0.1:11434")); err == nil {
			t.Errorf("Listeners(%q) = %v, want an error", bad, got)
		}
	}
}

func FuzzListeners(f *testing.F) {
	f.Add(socketTable)
	f.Add("0: 0100007F:2CAA x 0A a b c 4294967296")
	f.Fuzz(func(t *testing.T, table string) {
		got, err := choice.Listeners(strings.NewReader(table), netip.MustParseAddrPort("127.0.0.1:11434"))
		for _, uid := range got {
			if uid < 0 || err != nil {
				t.Errorf("Listeners = %v, %v", got, err)
			}
		}
	})
}

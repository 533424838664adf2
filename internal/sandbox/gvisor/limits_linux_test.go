package gvisor_test

import (
	"io"
	"os"
	"testing"

	"airlock/internal/sandbox"
)

// TestFilesLargerThanMemory: what a command wrote is read out, however little memory it had.
func TestFilesLargerThanMemory(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("fills a control group")
	}
	d := newDriver(t, t.TempDir())
	work := t.TempDir()
	sb, err := d.Start(t.Context(), &sandbox.Spec{WorkDir: work, Limits: sandbox.Limits{Memory: 64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	const size = 200 << 20
	res, err := sb.Client().Exec(t.Context(), "head -c 209715200 /dev/zero >"+work+"/large")
	if err != nil || res.ExitCode != 0 {
		t.Fatalf("write a large file: %+v, %v", res, err)
	}
	var got counter
	if err := sb.Upper(t.Context(), &got); err != nil {
		t.Errorf("Upper: %v", err)
	}
	if got < size {
		t.Errorf("the upper layer has %d bytes, want more than %d", got, size)
	}
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

var _ io.Writer = (*counter)(nil)

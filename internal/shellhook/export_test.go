package shellhook

import (
	"context"
	"time"
)

// ReadPatiently is Read on a machine on which a terminal's program may take long to start.
func ReadPatiently(ctx context.Context, environ func(string) string) Last {
	return read(ctx, time.Minute, environ)
}

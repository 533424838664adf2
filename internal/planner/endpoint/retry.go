package endpoint

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter is the longest wait that is told; longer ones are taken for it.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads when an endpoint wants to be asked again. What cannot be read is not told.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	if d, ok := seconds(h.Get("Retry-After-Ms")); ok {
		return d / 1000, true
	}
	value := h.Get("Retry-After")
	if d, ok := seconds(value); ok {
		return d, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter), true
	}
	return 0, false
}

// seconds reads a number of seconds, at most 1000 times maxRetryAfter: none is below zero.
func seconds(text string) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil && !math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, false
	}
	n = min(max(n, 0), maxRetryAfter.Seconds())
	return time.Duration(n * float64(time.Second)), true
}

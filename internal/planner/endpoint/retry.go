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
	if d, ok := amount(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d, true
	}
	value := h.Get("Retry-After")
	if d, ok := amount(value, time.Second); ok {
		return d, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter), true
	}
	return 0, false
}

// amount reads a number of units.
func amount(text string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil && !math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, false
	}
	n = min(max(n*float64(unit), 0), float64(maxRetryAfter))
	return time.Duration(n), true
}

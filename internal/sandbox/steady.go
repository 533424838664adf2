package sandbox

import "time"

// clockSlack is by how much two looks at the clocks may differ without that one was set.
const clockSlack = time.Second

// SteadyStart is started, a moment by the system's clock, as that clock would tell it after it was set back: what has changed on the
// host since then has a later time in any case, and what changed shortly before may have one too. noted is the time by the
// system's clock at about started, now what it is now, and passed what has passed between by a clock that nobody sets. A
// clock that was set ahead changes nothing.
func SteadyStart(started, noted, now time.Time, passed time.Duration) time.Time {
	if set := now.Round(0).Sub(noted.Round(0)) - passed; set < -clockSlack {
		return started.Add(set)
	}
	return started
}

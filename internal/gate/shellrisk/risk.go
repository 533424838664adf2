package shellrisk

import "slices"

// A Risk is what a command would do at worst. The zero value counts as Unknown.
type Risk string

// The risks, from the least to the most severe.
const (
	ReadOnly      Risk = "read-only"
	WritesInside  Risk = "writes-inside"  // below the working folder
	Network       Risk = "network"        // speaks to other machines
	Package       Risk = "package"        // installs or removes software
	Service       Risk = "service"        // starts, stops or sets up services
	WritesOutside Risk = "writes-outside" // elsewhere than the working folder
	Unknown       Risk = "unknown"        // cannot be told
	Privileged    Risk = "privileged"     // with another's rights, the superuser's as a rule
	Destructive   Risk = "destructive"    // could lose what cannot be brought back
)

// Severity orders the risks: 0 is ReadOnly. What is no risk of ours is as severe as Unknown.
func (r Risk) Severity() int {
	switch r {
	case ReadOnly:
		return 0
	case WritesInside:
		return 1
	case Network:
		return 2
	case Package:
		return 3
	case Service:
		return 4
	case WritesOutside:
		return 5
	case Privileged:
		return 7
	case Destructive:
		return 8
	}
	return 6
}

// Less reports whether r is less severe than other.
func (r Risk) Less(other Risk) bool { return r.Severity() < other.Severity() }

// known reports whether r is one of the risks.
func (r Risk) known() bool { return r == Unknown || r.Severity() != 6 }

// add gives the part an effect.
func (p *Part) add(risk Risk, why string) {
	p.effect(Effect{Risk: risk, Why: why})
}

// maxEffects is how many effects a part lists: past them only one that is more severe.
const maxEffects = 64

func (p *Part) effect(e Effect) {
	if e.Risk == ReadOnly || slices.Contains(p.Effects, e) {
		return
	}
	if len(p.Effects) >= maxEffects && slices.ContainsFunc(p.Effects, func(old Effect) bool { return !old.Risk.Less(e.Risk) }) {
		return
	}
	p.Effects = append(p.Effects, e)
}

func (p *Part) need(what string) {
	if slices.Contains(p.Needs, what) {
		return
	}
	p.Needs = append(p.Needs, what)
}

func (p *Part) host(name string) {
	if slices.Contains(p.Hosts, name) {
		return
	}
	p.Hosts = append(p.Hosts, name)
}

// settle works out the part's risk from its effects.
func (p *Part) settle() {
	p.Risk, p.Why = ReadOnly, "it only reads"
	for _, e := range p.Effects {
		if p.Risk.Less(e.Risk) {
			p.Risk, p.Why = e.Risk, printable(e.Why)
		}
	}
}

// Package near finds the name that somebody probably meant by one that does not exist.
package near

import (
	"slices"
	"strings"
)

// maxName is how long a name is looked at: a longer one is no slip of another.
const maxName = 64

// Name is the one of names that name is most like, in whatever case; "" where none is like
// it. Of several that are equally like it, it is the first in order.
func Name(name string, names []string) string {
	if len(name) < 2 || len(name) > maxName {
		return ""
	}
	name = strings.ToLower(name)
	best, least := "", max(min(2, len(name)/2), len(name)/3)+1
	for _, candidate := range slices.Sorted(slices.Values(names)) {
		d := distance(name, candidate)
		// A part of a name, such as read_file of fs.read_file, is nearer than it looks.
		if len(name) >= 4 && strings.Contains(candidate, name) {
			d = 1
		}
		if d < least && d < len(candidate) {
			best, least = candidate, d
		}
	}
	return best
}

// distance is how many letters have to be changed, added or left out to make b of a
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

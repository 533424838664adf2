package tool

import "strings"

// maxListed is how many names an error lists.
const maxListed = 30

// instead says what could have been meant, or what there is.
func instead(name string, names []string) string {
	if len(names) == 0 {
		return "there are none"
	}
	if near := nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	if len(names) > maxListed {
		return "there are " + strings.Join(names[:maxListed], ", ") + ", …"
	}
	return "there are " + strings.Join(names, ", ")
}

// nearest is the name that name is most like; "" where none is like it.
func nearest(name string, names []string) string {
	if len(name) < 2 || len(name) > maxName {
		return ""
	}
	name = strings.ToLower(name)
	best, least := "", max(2, len(name)/3)+1
	for _, candidate := range names {
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

// distance is how many letters have to be changed, added or left out to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

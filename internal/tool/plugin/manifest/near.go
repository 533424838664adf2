package manifest

import "strings"

// instead says which of the known names was meant, or lists them.
func instead(name string, known []string) string {
	best, least := "", 3 // two slips are a slip, three are another word
	for _, candidate := range known {
		if d := slips(strings.ToLower(name), candidate, least); d < least {
			best, least = candidate, d
		}
	}
	if best != "" && least < len(best) {
		return "did you mean " + best + "?"
	}
	return "there are " + strings.Join(known, ", ")
}

// slips counts the letters to add, drop, change or swap with their neighbour to make b of
// a; most where they are that many or more.
func slips(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
		for j := 1; j <= len(b); j++ {
			if i == 0 {
				rows[i][j] = j
				continue
			}
			change := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			rows[i][j] = min(change, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return min(rows[len(a)][len(b)], most)
}

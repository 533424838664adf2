//go:build !unix

package gate

import "io/fs"

// ownersKnown says that files have owners and modes here.
const ownersKnown = false

// owner is the user that a file belongs to; -1 where that is not known.
func owner(fs.FileInfo) int { return -1 }

package cli

import "airlock/internal/changes"

// AskApproval is tested from outside, though it is not the package's to offer.
var AskApproval = askApproval

var AskPrompt = askPrompt

var HarmlessJSON = harmlessJSON

var Guard = func(b *Bridge) func(*changes.Change) string { return b.guard() }

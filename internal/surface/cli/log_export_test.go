package cli

// What of airlock log is tested from outside.
var (
	ParseWhen = parseWhen
	Sentence  = sentence
	Members   = members
)

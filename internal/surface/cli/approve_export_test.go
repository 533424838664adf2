package cli

// AskApproval is tested from outside, though it is not the package's to offer.
var AskApproval = askApproval

var AskPrompt = askPrompt

var HarmlessJSON = harmlessJSON

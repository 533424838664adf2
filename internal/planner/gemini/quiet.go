package gemini

import (
	"io"
	"log" //nolint:depguard // genai writes to it
	"os"
	"sync"
)

// logMu is held while the standard logger is silent.
var logMu sync.Mutex

// quiet silences the standard logger until the function that it gives is called, where genai
// would say in it, on the person's terminal, that it uses a key of the environment: it says
// so of any client, and these have a key of their own.
func quiet() func() {
	if os.Getenv("GOOGLE_API_KEY") == "" || os.Getenv("GEMINI_API_KEY") == "" {
		return func() {}
	}
	logMu.Lock()
	was := log.Writer()
	log.SetOutput(io.Discard)
	return func() {
		log.SetOutput(was)
		logMu.Unlock()
	}
}

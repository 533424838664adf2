package choice

import (
	"fmt"
	"strings"
)

// byKey takes the first provider whose own key is set.
func (c *chooser) byKey(t *target) bool {
	var others []string
	for _, name := range byKey() {
		p := named(name)
		variable := c.keyVariable(p)
		if variable == "" {
			continue
		}
		if other := c.env(p.other); p.other != "" && other != "" && !sameOrigin(other, p.base) {
			c.note(fmt.Sprintf("%s is passed over: %s says that the key is for another address; set AIRLOCK_PROVIDER=%s, and AIRLOCK_BASE_URL for that address", variable, p.other, name))
			continue
		}
		address := p.base
		if name == azure {
			var err error
			if address, err = c.azure(); err != nil {
				c.note(fmt.Sprintf("%s is passed over: %v", variable, err))
				continue
			}
		}
		if t.provider != nil {
			others = append(others, variable)
			continue
		}
		t.provider, t.baseURL, t.named, t.why = p, address, true, variable+" is set"
		if name == azure {
			t.fromEnv = azureVariable
		}
	}
	if len(others) > 0 {
		c.note(fmt.Sprintf("%s is set too: provider: below ai: in %s says which is used", strings.Join(others, ", "), c.file()))
	}
	return t.provider != nil
}

// keyVariable is the variable that holds a provider's key; "" where none is set.
func (c *chooser) keyVariable(p *provider) string {
	for _, name := range p.keys {
		if strings.TrimSpace(c.env(name)) != "" {
			return name
		}
	}
	return ""
}

// nothing is what is said where there is no model to ask.
func (c *chooser) nothing(found []string) error {
	var variables []string
	for _, name := range byKey() {
		variables = append(variables, named(name).keys[0])
	}
	mend := "write ai: {provider: anthropic, key_command: pass show anthropic}, or whichever you use, into " + c.file() +
		", set one of " + strings.Join(variables, ", ") + ", or start Ollama with a model"
	return &NothingError{Mend: strings.Join(append([]string{mend}, found...), "; ")}
}

// A NothingError says that there is no model to ask.
type NothingError struct {
	Mend string // what to set, and what was found that could not be used: one line
}

func (e *NothingError) Error() string { return "no model is set up: " + e.Mend }

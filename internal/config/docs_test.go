package config_test

import (
	"os"
	"regexp"
	"testing"

	"airlock/internal/config"
)

func TestDocumentedModels(t *testing.T) {
	text, err := os.ReadFile("../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	said := map[string]bool{}
	for _, b := range blocks {
		c, err := config.Parse("models.md", b[1])
		if err != nil {
			t.Errorf("%s\n%v", b[1], err)
			continue
		}
		said[c.AI.Provider] = true
	}
	for _, name := range config.Providers() {
		if !said[name] {
			t.Errorf("there is no configuration for %s", name)
		}
	}
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"airlock/internal/sandbox"
)

// repair removes what nobody owns of sandboxes that last and of images.
func (p *Program) repair(ctx context.Context) []sandbox.Finding {
	boxes := fixed("lasting sandboxes", "remove it by hand, as the user who made the sandbox", func() ([]string, error) {
		m, err := p.Sandboxes()
		if err != nil {
			return nil, err
		}
		return m.Repair(ctx)
	})
	images := fixed("images", "remove it by hand, as the user who pulled the image", func() ([]string, error) {
		store, err := p.Images()
		if err != nil {
			return nil, err
		}
		swept, err := store.Sweep(ctx)
		if swept == nil {
			return nil, err
		}
		return prunedTexts(swept), err
	})
	return []sandbox.Finding{boxes, images}
}

// maxFixed is how many of the things that were removed are named.
const maxFixed = 10

// fixed says what was removed.
func fixed(name, mend string, remove func() ([]string, error)) sandbox.Finding {
	removed, err := remove()
	f := sandbox.Finding{Name: name, OK: true, Text: "there was nothing that nobody owns"}
	if n := len(removed); n > 0 {
		rest := ""
		if n > maxFixed {
			removed, rest = removed[:maxFixed], fmt.Sprintf(", and %d more", n-maxFixed)
		}
		f.Text = "removed: " + printable(strings.Join(removed, ", ")) + rest
	}
	if err != nil {
		f.OK, f.Text, f.Mend = false, printable(err.Error()), mend
	}
	return f
}

// checkBoxes says how many sandboxes last, and whether they answer.
func (p *Program) checkBoxes(ctx context.Context) sandbox.Finding {
	f := sandbox.Finding{Name: "lasting", OK: true}
	m, err := p.Sandboxes()
	if err != nil {
		f.OK, f.Text = false, printable(err.Error())
		return f
	}
	list, err := m.List(ctx, nil)
	if err != nil {
		f.OK, f.Text = false, printable(err.Error())
		return f
	}
	var silent []string
	for i := range list {
		if list[i].Error != "" && list[i].Status == nil {
			silent = append(silent, list[i].ID)
		}
	}
	f.Text = plural(len(list), "sandbox") + " last"
	if len(list) == 1 {
		f.Text += "s"
	}
	if len(silent) > 0 {
		f.Warn = true
		f.Text += fmt.Sprintf("; %s do not answer", strings.Join(silent, ", "))
		f.Mend = "airlock doctor --fix removes what is left of those that have ended; airlock sandbox rm ID ends one"
	}
	return f
}

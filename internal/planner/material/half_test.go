package material_test

import (
	"strings"
	"testing"

	"airlock/internal/planner/material"
)

func TestHalfAKeyIsNotSent(t *testing.T) {
	secret := strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n", 5)
	for _, tt := range []struct{ name, text, want string }{
		{"from its middle on", secret + "-----END RSA PRIVATE KEY-----\nafter", "[redacted:private-key]\nafter"},
		{"behind other text", "what stood before it\n" + secret + "-----END PRIVATE KEY-----\n", "what stood before it\n[redacted:private-key]\n"},
		{"on lines that end with a return", strings.ReplaceAll(secret, "\n", "\r\n") + "-----END PRIVATE KEY-----\r\nafter", "[redacted:private-key]"},
		{"nothing but its end", "-----END PRIVATE KEY-----", "[redacted:private-key]"},
		{"a certificate is no secret", "QUJD\n-----END CERTIFICATE-----\n", "QUJD"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := material.Gather(t.Context(), &material.Options{
				LastStderr: tt.text, Shell: nil, Redactor: material.NewRedactor(nil),
			})
			if err != nil {
				t.Fatal(err)
			}
			if said := got.Context.LastStderr; strings.Contains(said, "MIIEvQ") || !strings.Contains(said, strings.TrimSpace(tt.want)) {
				t.Errorf("last_stderr = %q, want %q", said, tt.want)
			}
		})
	}
}

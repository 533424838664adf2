package redact

// A rule finds one form of secret.
type rule struct {
	id    string   // stands in the secret's place
	words []string // lower case; one of them begins the secret, or stands before it

	// look decides at a word, v.text[start:end], whatever case that is written in. It may
	// look lookBack bytes back, and must not report a secret that begins before start. Where
	// the answer hangs on bytes that v does not have yet, it is undecided; what v has must be
	// bounded then.
	look func(v view, start, end int, r *rule) span

	// keep leaves what was found as it is, and lets no other rule look into it.
	keep bool

	// Of a token, which begins with one of words, spelled as in exact where that is not lower
	// case: the characters that follow, and how many.
	exact    []string
	of       *alphabet
	min, max int
}

// An alphabet is a set of bytes.
type alphabet [256]bool

func letters(ranges string) *alphabet {
	var a alphabet
	for i := 0; i+1 < len(ranges); i += 2 {
		for c := int(ranges[i]); c <= int(ranges[i+1]); c++ {
			a[c] = true
		}
	}
	return &a
}

// The alphabets that tokens are written in.
var (
	alnum       = letters("azAZ09")
	alnum_      = letters("azAZ09__")
	base64u     = letters("azAZ09__--")
	dotted      = letters("azAZ09__--..")
	upper32     = letters("AZ27")
	hex         = letters("af09")
	bearerOf    = letters("azAZ09..__~~++//==--")
	signatureOf = letters("azAZ09%%++//==--__")
	markOf      = letters("az09--")

	bech32 = letters("AZ09")
)

// anyLong is as long as a token of no fixed length may be.
const anyLong = 2048

// rules are all forms of secret that are known. Lengths and alphabets are those that the
// services document, or that their tokens have.
var rules = []rule{
	{id: "mark", words: []string{markStart}, look: redacted, keep: true},
	{id: "private-key", words: []string{"-----begin "}, look: privateKey},
	{id: "jwt", words: []string{"eyj"}, look: jwt},
	{id: "authorization", words: []string{"authorization"}, look: authorization},
	{id: "bearer", words: []string{"bearer "}, look: bearer},
	{id: "cookie", words: []string{"cookie:"}, look: cookie},
	{id: "url-password", words: []string{"://"}, look: urlPassword},
	{id: "netrc", words: []string{"machine", "default"}, look: netrc},
	{id: "user-password", words: []string{"-u", "--user", "--proxy-user"}, look: userPassword},
	{id: "password", words: []string{"mysql", "mariadb"}, look: mysqlPassword},
	{id: "sshpass", words: []string{"sshpass -p"}, look: sshpass},
	{id: "password", words: passwordWords, look: assignment},
	{id: "secret", words: secretWords, look: assignment},

	token("aws-key-id", upper32, 16, 16, "AKIA", "ASIA", "ABIA", "ACCA"),
	token("github-token", alnum, 36, 255, "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
	token("github-token", alnum_, 22, 255, "github_pat_"),
	token("gitlab-token", base64u, 20, 300, "glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glagent-", "gloas-", "glft-", "glsoat-", "glimt-", "GR1348941"),
	token("slack-token", base64u, 10, 300, "xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxe.xoxb-", "xoxe.xoxp-", "xoxc-", "xoxd-", "xapp-"),
	token("slack-webhook", letters("azAZ09//"), 40, 100, "hooks.slack.com/services/", "hooks.slack.com/workflows/"),
	token("discord-webhook", letters("azAZ09//__--"), 60, 120, "discord.com/api/webhooks/", "discordapp.com/api/webhooks/"),
	token("stripe-key", alnum, 16, 255, "sk_live_", "rk_live_", "sk_test_", "rk_test_"),
	token("stripe-key", alnum, 24, 255, "whsec_"),
	token("anthropic-key", base64u, 20, 255, "sk-ant-"),
	token("openai-key", base64u, 20, 300, "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"),
	token("openrouter-key", base64u, 20, 300, "sk-or-v1-"),
	token("openai-key", alnum, 40, 64, "sk-"),
	token("google-api-key", base64u, 35, 35, "AIza"),
	token("google-oauth", dotted, 30, anyLong, "ya29."),
	token("google-oauth", base64u, 28, 28, "GOCSPX-"),
	token("huggingface-token", alnum, 30, 64, "hf_"),
	token("npm-token", alnum, 36, 36, "npm_"),
	token("pypi-token", base64u, 50, 1024, "pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBp"),
	token("rubygems-key", hex, 48, 48, "rubygems_"),
	token("docker-token", base64u, 27, 64, "dckr_pat_", "dckr_oat_"),
	token("digitalocean-token", hex, 64, 64, "dop_v1_", "doo_v1_", "dor_v1_"),
	token("sendgrid-key", dotted, 60, 70, "SG."),
	token("shopify-token", letters("azAZ09"), 32, 32, "shpat_", "shpca_", "shppa_", "shpss_"),
	token("square-token", base64u, 22, 60, "sq0atp-", "sq0csp-", "EAAAE"),
	token("vault-token", base64u, 24, 300, "hvs.", "hvb.", "hvr."),
	token("grafana-token", letters("azAZ09++//==__"), 32, 400, "glc_", "glsa_"),
	token("tailscale-key", base64u, 20, 100, "tskey-"),
	token("age-key", bech32, 58, 58, "AGE-SECRET-KEY-1"),
	token("doppler-token", dotted, 40, 80, "dp.pt.", "dp.st.", "dp.ct.", "dp.sa."),
	token("atlassian-token", letters("azAZ09__--=="), 50, 400, "ATATT3", "ATCTT3", "ATBB"),
	token("linear-key", alnum, 32, 64, "lin_api_"),
	token("notion-token", alnum, 40, 60, "ntn_", "secret_"),
	token("postman-key", base64u, 59, 64, "PMAK-"),
	token("replicate-token", alnum, 37, 40, "r8_"),
	token("groq-key", alnum, 50, 60, "gsk_"),
	token("xai-key", alnum, 70, 90, "xai-"),
	token("perplexity-key", alnum, 40, 60, "pplx-"),
	token("nvidia-key", base64u, 60, 80, "nvapi-"),
	token("supabase-token", hex, 40, 40, "sbp_"),
	token("sentry-token", letters("azAZ09__==++//"), 64, 400, "sntrys_", "sntryu_"),
	token("databricks-token", letters("af09--"), 32, 36, "dapi"),
	token("figma-token", base64u, 38, 60, "figd_"),
	token("fly-token", letters("azAZ09++//==,,__"), 60, anyLong, "fm1r_", "fm2_", "fo1_"),
	token("1password-token", base64u, 200, anyLong, "ops_eyJ"),
	token("pulumi-token", hex, 40, 40, "pul-"),
	token("azure-secret", letters("azAZ09__--..~~"), 31, 34, "Q~"),
	{id: "telegram-token", words: []string{":aa"}, look: telegram},
	{id: "azure-signature", words: []string{"sig="}, look: signature},
}

// token is the rule of tokens that begin with one of these words, spelled like this.
func token(id string, of *alphabet, least, most int, exact ...string) rule {
	r := rule{id: id, look: prefixed, exact: exact, of: of, min: least, max: most}
	for _, w := range exact {
		r.words = append(r.words, lower(w))
	}
	return r
}

func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c - 'A' + 'a'
		}
	}
	return string(b)
}

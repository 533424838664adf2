package material

// What decodes bytes from outside, for the fuzz targets.
var (
	DistroOf  = distroOf
	PlainText = plainText
	Worth     = worth
	RedactEnv = redactEnv
)

// EnvParts gives the parts that an .env file was taken apart into.
func EnvParts(text string) (all string, values []string) {
	envLines(text, func(before string, v *variable, end string) {
		all += before
		if v != nil {
			all += v.whole
			values = append(values, v.value)
		}
		all += end
	})
	return all, values
}

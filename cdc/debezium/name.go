package debezium

import (
	"strconv"
	"strings"
	"unicode"
)

// adjuster is a field.name.adjustment.mode or a schema.name.adjustment.mode;
// nil for a mode that does not exist.
func adjuster(mode string, field bool) func(string) string {
	underscore := func(rune) string { return "_" }
	unicodes := func(r rune) string {
		hex := strconv.FormatInt(int64(r), 16)
		if len(hex) <= 2 {
			hex = "00" + hex
		}
		return "_u" + hex
	}
	switch mode {
	case "", "none":
		return func(s string) string { return s }
	case "avro":
		return func(s string) string { return avroName(s, field, true, false, underscore) }
	case "avro_unicode":
		return func(s string) string { return avroName(s, field, false, true, unicodes) }
	}
	return nil
}

// avroName replaces what an Avro name must not hold. A schema's name may hold
// dots; by the Unicode form an underscore is escaped too.
func avroName(name string, field, keepDigit, escapeUnderscore bool, replace func(rune) string) string {
	valid := func(r rune, first bool) bool {
		switch {
		case r == '_':
			return !escapeUnderscore
		case r == '.' && !first:
			return !field
		case r >= '0' && r <= '9':
			return !first
		}
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	var b strings.Builder
	for i, r := range name {
		switch {
		case valid(r, i == 0):
			b.WriteRune(r)
		case i == 0 && keepDigit && unicode.IsDigit(r):
			b.WriteString(replace(r))
			b.WriteRune(r)
		case r > 0xffff: // two characters in Java
			b.WriteString(replace(r>>10 + 0xd7c0))
			b.WriteString(replace(r&0x3ff + 0xdc00))
		default:
			b.WriteString(replace(r))
		}
	}
	return b.String()
}

// blank is Java's String.trim().isEmpty(): only up to the space are characters
// taken for blanks.
func blank(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > ' ' }) < 0
}

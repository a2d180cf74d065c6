package intent

import "strings"

// storable makes PostgreSQL text of what a stranger sent.
func storable(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", "\uFFFD")
}

package wal

// AppendRFC3339 appends a timestamptz, as PostgreSQL prints it with DateStyle
// ISO and TimeZone UTC, to dst in the form of RFC 3339 with six digits of
// microseconds: 2026-01-02 03:04:05.6+00 becomes 2026-01-02T03:04:05.600000Z.
// What that form cannot hold (infinity, years before 1 or after 9999, another
// zone) is appended as it is: a row is not worth stopping the stream for, and
// the reader of the header sees what the table says.
func AppendRFC3339(dst, text []byte) []byte {
	const seconds, zone = len("2006-01-02 15:04:05"), len("+00")
	n := len(text) - zone
	if n < seconds || string(text[n:]) != "+00" || text[4] != '-' || text[10] != ' ' {
		return append(dst, text...)
	}
	fraction := text[seconds:n]
	if len(fraction) > len(".000000") || len(fraction) > 0 && fraction[0] != '.' {
		return append(dst, text...)
	}
	dst = append(dst, text[:10]...)
	dst = append(dst, 'T')
	dst = append(dst, text[11:seconds]...)
	if len(fraction) == 0 {
		fraction = []byte{'.'}
	}
	dst = append(dst, fraction...)
	for range len(".000000") - len(fraction) {
		dst = append(dst, '0')
	}
	return append(dst, 'Z')
}

package wal

import "fmt"

// LSN is a position in the write-ahead log, in bytes from its beginning. Only
// the ends of commits are ordered over transactions; the LSNs of rows of
// interleaved transactions go back and forth and are not even kept here.
type LSN uint64

// String is the form that PostgreSQL prints and parses: 16/B374D848.
func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l)) }

package event

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"
)

// ID names one fact, or one request or timer that causes facts. It is a UUID
// of version 8 (RFC 9562, section 5.8): 48 bits of milliseconds, then a hash.
// Ids are derived, never random, so a decision that is repeated after a crash
// gives its facts the ids they had the first time, and every consumer absorbs them.
type ID [16]byte

// Derive returns the id of the fact that participant p states about an order.
// at is for index locality only (the time of the causing fact's id, or the
// instant of the causing request or timer); what makes the id unique is the
// hash of (p, order, what, generation). generation counts from 0 and rises only when a
// participant states the same type about the same order again.
func Derive(at time.Time, p Participant, order OrderNo, what string, generation int) ID {
	h := sha256.New()
	var num [16]byte
	binary.BigEndian.PutUint64(num[:8], uint64(order))
	binary.BigEndian.PutUint64(num[8:], uint64(generation))
	h.Write(num[:])
	h.Write([]byte(p))
	h.Write([]byte{0})
	h.Write([]byte(what))
	sum := h.Sum(nil)

	var id ID
	copy(id[6:], sum)
	ms := uint64(at.UnixMilli())
	var t [8]byte
	binary.BigEndian.PutUint64(t[:], ms<<16)
	copy(id[:6], t[:6])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Time returns the instant in the id, to the millisecond.
func (id ID) Time() time.Time {
	var t [8]byte
	copy(t[2:], id[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(t[:]))).UTC()
}

// IsZero reports whether the id is missing.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the id in the usual form of a UUID; the empty string for the zero id.
func (id ID) String() string {
	if id.IsZero() {
		return ""
	}
	b := make([]byte, 36)
	hex.Encode(b[0:8], id[0:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:36], id[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b)
}

// MarshalText writes the id as String does.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *ID) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*id = ID{}
		return nil
	}
	*id, err = ParseID(string(text))
	return err
}

var errID = errors.New("not a UUID")

// ParseID reads a UUID of any version in its 36-character form. The nil UUID is refused:
// it would fold strangers together in an inbox (CON-10).
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, errID
	}
	src := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(id[:], []byte(src)); err != nil || id.IsZero() {
		return ID{}, errID
	}
	return id, nil
}

package wal

import (
	"bytes"
	"encoding/binary"
)

// body is a message that is read from front to back. Reading beyond its end
// gives zeros and marks it as short, so that a reader checks once, at its end.
type body struct {
	rest  []byte
	short bool
}

func (b *body) ok() bool { return !b.short }

func (b *body) take(n int) []byte {
	if n < 0 || n > len(b.rest) {
		b.short, b.rest = true, nil
		return nil
	}
	p := b.rest[:n:n]
	b.rest = b.rest[n:]
	return p
}

func (b *body) uint8() byte {
	if p := b.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (b *body) uint16() uint16 {
	if p := b.take(2); p != nil {
		return binary.BigEndian.Uint16(p)
	}
	return 0
}

func (b *body) uint32() uint32 {
	if p := b.take(4); p != nil {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

func (b *body) uint64() uint64 {
	if p := b.take(8); p != nil {
		return binary.BigEndian.Uint64(p)
	}
	return 0
}

// text reads up to the next zero byte.
func (b *body) text() string {
	i := bytes.IndexByte(b.rest, 0)
	p := b.take(i + 1)
	if i < 0 {
		b.short = true
		return ""
	}
	return string(p[:i])
}

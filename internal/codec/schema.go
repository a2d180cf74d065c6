package codec

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/linkedin/goavro/v2"

	"chorus/internal/codec/avsc"
	"chorus/internal/event"
	"chorus/schemas"
)

// schema is one that values are written in.
type schema struct {
	id      int
	fact    event.Type
	avro    *goavro.Codec
	shape   *avsc.Type
	present bool // the same as this version's, so a value needs no resolution
}

// shapes returns the present shape of every fact.
func shapes() (map[event.Type]*avsc.Type, error) {
	all := map[event.Type]*avsc.Type{}
	for _, s := range schemas.List() {
		shape, err := avsc.Parse(s.Text)
		if err != nil {
			return nil, fmt.Errorf("schema %s: %w", s.Subject, err)
		}
		all[event.Type(s.Type)] = shape
	}
	return all, nil
}

// compile makes a schema out of its text. Its name says which fact it is for.
func compile(text string, present map[event.Type]*avsc.Type) (*schema, error) {
	limitBlocks()
	shape, err := avsc.Parse(text)
	if err != nil {
		return nil, err
	}
	name, ours := strings.CutPrefix(shape.Name, schemas.Namespace+".")
	s := &schema{fact: event.Type(name), shape: shape}
	now := present[s.fact]
	if !ours || now == nil || shape.Kind != avsc.Record {
		return nil, fmt.Errorf("%s %q is no fact that this version knows", shape.Kind, shape.Name)
	}
	s.present = reflect.DeepEqual(shape, now)
	if s.avro, err = goavro.NewCodec(text); err != nil {
		return nil, err
	}
	return s, nil
}

// limitBlocks bounds what goavro allocates on the word of a few bytes: it makes room for as many items as an
// array says it has before it reads the first, 32 GB by default, which no recover survives. A block of ours never has so
// many items, and a longer array may have several blocks. The limit is a variable of goavro's, so it is set once, before
// the first codec is made.
var limitBlocks = sync.OnceFunc(func() { goavro.MaxBlockCount = 1 << 16 })

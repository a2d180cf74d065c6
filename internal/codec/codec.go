package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"chorus/internal/codec/avsc"
	"chorus/internal/event"
	"chorus/schemas"
)

// Format is how values are written. Both are always readable.
type Format string

const (
	Avro Format = "avro"
	JSON Format = "json"
)

// frameSize is the length of the frame before an Avro body: a zero byte and the schema's id.
const frameSize = 5

// Codec writes and reads facts. It may be used by any number of goroutines.
type Codec struct {
	format  Format
	writers map[event.Type]*schema          // the schema in which each fact is written
	known   atomic.Pointer[map[int]*schema] // by id; replaced as a whole by Learn, so that Decode takes no lock
	learner learner
}

// New returns a codec that writes in the given format, under the registry's id for each fact's present schema. No
// ids at all mean those of the embedded registry, which are fixed, old versions included. An id that is
// missing, impossible or given twice is refused: records written under it could not be read by anybody.
func New(ids map[event.Type]int, format Format) (*Codec, error) {
	if format != Avro && format != JSON {
		return nil, fmt.Errorf("value format %q: want %s or %s", format, Avro, JSON)
	}
	list := schemas.List()
	if ids == nil {
		list = schemas.Released()
	}
	c := &Codec{format: format, writers: map[event.Type]*schema{}, learner: newLearner()}
	shapes, err := shapes()
	if err != nil {
		return nil, err
	}
	known := map[int]*schema{}
	var faults []error
	for _, s := range list {
		t := event.Type(s.Type)
		if ids != nil {
			s.ID = ids[t]
		}
		switch compiled, err := compile(s.Text, shapes); {
		case err != nil:
			faults = append(faults, fmt.Errorf("compile schema %s: %w", s.Subject, err))
		case s.ID < 1 || s.ID > math.MaxInt32:
			faults = append(faults, fmt.Errorf("schema %s: %d is no schema id", s.Subject, s.ID))
		case known[s.ID] != nil:
			faults = append(faults, fmt.Errorf("schema %s: id %d is that of %s too", s.Subject, s.ID, known[s.ID].fact))
		default:
			compiled.id = s.ID
			known[s.ID], c.writers[t] = compiled, compiled
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	c.known.Store(&known)
	return c, nil
}

// Embedded returns a codec that writes Avro under the fixed ids of the embedded registry.
func Embedded() *Codec {
	c, err := New(nil, Avro)
	if err != nil {
		panic(fmt.Sprintf("codec: embedded schemas: %v", err)) // a fault of the build; tests compile all of them
	}
	return c
}

// Encode returns the value of the record that states f. It refuses, naming the field, what no
// reader could give back as it is: text that is not UTF-8, a time that is zero or finer than a microsecond, an unknown symbol.
func (c *Codec) Encode(f event.Fact) ([]byte, error) {
	if f == nil {
		return nil, errors.New("encode fact: there is none")
	}
	s := c.writers[f.Type()]
	if s == nil {
		return nil, fmt.Errorf("encode %s: %w", f.Type(), ErrUnknownType)
	}
	native, err := toNative(f)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", f.Type(), err)
	}
	if c.format == JSON {
		return appendJSON(make([]byte, 0, 256), s.shape, native), nil
	}
	buf := make([]byte, frameSize, 128)
	binary.BigEndian.PutUint32(buf[1:], uint32(s.id))
	if buf, err = s.avro.BinaryFromNative(buf, native); err != nil {
		return nil, fmt.Errorf("encode %s: %w", f.Type(), err)
	}
	return buf, nil
}

// Decode reads the value of a record whose eventType header says t. Every error is an *Error.
func (c *Codec) Decode(t event.Type, value []byte) (event.Fact, error) {
	present := c.writers[t]
	if present == nil {
		return nil, &Error{Kind: ErrUnknownType, Part: "header " + headerEventType.String(), Reason: quote([]byte(t)) + " is no fact that this version knows"}
	}
	var native map[string]any
	var err error
	switch {
	case value == nil:
		return nil, undecodable("", "is null; no fact has a null value")
	case len(value) == 0:
		return nil, undecodable("", "is empty")
	case value[0] == '{':
		native, err = parseJSON(present.shape, value)
	default:
		native, err = c.unframe(t, present.shape, value)
	}
	if err != nil {
		return nil, err
	}
	return toFact(t, native)
}

// unframe reads a frame and its body with the schema that wrote it, and gives it the shape that this version knows.
func (c *Codec) unframe(t event.Type, shape *avsc.Type, value []byte) (map[string]any, error) {
	if value[0] != 0 {
		return nil, undecodable("", fmt.Sprintf("begins with byte %#02x: neither an Avro frame (00) nor JSON ({)", value[0]))
	}
	if len(value) < frameSize {
		return nil, undecodable("", fmt.Sprintf("%d bytes are too few for a frame", len(value)))
	}
	id := int64(binary.BigEndian.Uint32(value[1:]))
	if id < 1 || id > math.MaxInt32 {
		return nil, undecodable("", fmt.Sprintf("no registry gives schema id %d", id))
	}
	s := (*c.known.Load())[int(id)]
	if s == nil {
		return nil, &Error{Kind: ErrUnknownSchema, Part: "value", Reason: fmt.Sprintf("schema id %d is not known", id), SchemaID: int(id)}
	}
	if s.fact != t {
		return nil, undecodable("", fmt.Sprintf("schema id %d is that of %s, the %s header says %s", id, s.fact, headerEventType, t))
	}
	native, rest, err := s.avro.NativeFromBinary(value[frameSize:])
	if err != nil {
		return nil, undecodable("", fmt.Sprintf("does not fit schema id %d: %v", id, err))
	}
	if len(rest) > 0 {
		return nil, undecodable("", fmt.Sprintf("%d bytes are left over after schema id %d", len(rest), id))
	}
	if !s.present {
		if native, err = resolve(s.shape, shape, native, ""); err != nil {
			return nil, err
		}
	}
	return native.(map[string]any), nil
}

func undecodable(path, reason string) *Error {
	part := "value"
	if path != "" {
		part += " " + path
	}
	return &Error{Kind: ErrUndecodable, Part: part, Reason: reason}
}

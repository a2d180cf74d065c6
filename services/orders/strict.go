package orders

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep a body may nest; the API's own are three deep.
const maxDepth = 16

// maxName is how much of a field's name an error repeats.
const maxName = 100

// isNull is wrong for each field there is, one that may be left out included: null is not in any schema.
const isNull = "must not be null"

// reader turns a body into maps, slices, strings and int64s for validation, and notes with its path whatever
// encoding/json would mend in silence: a field that is there twice or null, broken Unicode, NUL, which PostgreSQL cannot
// keep (API-11), and a number that is not whole and written in digits alone.
type reader struct {
	dec    *jsontext.Decoder
	faults []fault
}

// fault is one thing that is wrong with a body.
type fault struct{ path, message string }

// readJSON reads one document. The error says that it is not one, and then nothing else is known of it.
func readJSON(data []byte) (tree any, faults []fault, err error) {
	r := &reader{dec: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	if tree, err = r.value("body", 0); err != nil {
		return nil, nil, describe(err)
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("there is more behind the JSON document")
	}
	return tree, r.faults, nil
}

// describe says where the syntax goes wrong, without the parser's name.
func describe(err error) error {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		return fmt.Errorf("not JSON, at byte %d: %w", syntax.ByteOffset, syntax.Err)
	}
	return fmt.Errorf("not JSON: %w", err)
}

func (r *reader) note(path, message string) {
	r.faults = append(r.faults, fault{path, message})
}

func (r *reader) value(path string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("more than %d levels deep", maxDepth)
	}
	switch r.dec.PeekKind() {
	case '{':
		return r.object(path, depth)
	case '[':
		return r.array(path, depth)
	case '"':
		return r.text(path)
	case '0':
		return r.number(path)
	}
	token, err := r.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	if token.Kind() == 'n' {
		r.note(path, isNull)
		return nil, nil
	}
	return token.Bool(), nil
}

func (r *reader) object(path string, depth int) (any, error) {
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, err
	}
	object := map[string]any{}
	for r.dec.PeekKind() != '}' {
		name, err := r.text(path)
		if err != nil {
			return nil, err
		}
		at := path + "." + clip(name, maxName) // or a name of a megabyte would be copied for each of what it holds
		if _, twice := object[name]; twice {
			r.note(at, "is there twice")
		}
		if object[name], err = r.value(at, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := r.dec.ReadToken()
	return object, err
}

func (r *reader) array(path string, depth int) (any, error) {
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, err
	}
	array := []any{}
	for r.dec.PeekKind() != ']' {
		v, err := r.value(path+"["+strconv.Itoa(len(array))+"]", depth+1)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	_, err := r.dec.ReadToken()
	return array, err
}

func (r *reader) text(path string) (string, error) {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return "", err
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		r.note(path, "is not valid Unicode")
	}
	if bytes.IndexByte(text, 0) >= 0 {
		r.note(path, "must not hold the character NUL")
	}
	return string(text), nil
}

func (r *reader) number(path string) (any, error) {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err == nil && string(raw) != "-0" {
		return n, nil
	}
	if strings.Trim(string(raw), "-0123456789") == "" {
		r.note(path, "is out of range")
	} else {
		r.note(path, "must be a whole number, written in digits alone")
	}
	return int64(1), nil // stands for the number, which has been reported
}

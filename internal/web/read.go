package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Read decodes a JSON body of at most limit bytes into v, strictly: one document and nothing behind it, no member that is
// there twice, unknown or in other letters, no broken Unicode, and no NUL, which PostgreSQL does not keep. encoding/json
// would mend all of these in silence, and one program's reading of a request would differ from the next one's. On a
// fault Read answers the request itself and returns false; v is of no use then.
func Read(w http.ResponseWriter, r *http.Request, limit int64, v any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		Fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", limit))
		return false
	case err != nil:
		Fail(w, http.StatusBadRequest, "the body did not arrive: "+err.Error())
		return false
	}
	if fault := Decode(body, v); fault != nil {
		Fail(w, http.StatusBadRequest, "the body is not the JSON that is wanted", *fault)
		return false
	}
	return true
}

// Decode is Read for bytes: it returns what is wrong with them, or nil.
func Decode(body []byte, v any) *Fault {
	if at, found := findNUL(body); found {
		return &Fault{Location: location(at), Message: "holds the character NUL"}
	}
	err := json.Unmarshal(body, v, json.RejectUnknownMembers(true))
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	switch {
	case err == nil:
		return nil
	case len(bytes.TrimSpace(body)) == 0:
		return &Fault{Location: "body", Message: "is empty"}
	case errors.As(err, &syntax):
		return &Fault{Location: location(syntax.JSONPointer), Message: fmt.Sprintf("%v (byte %d)", syntax.Err, syntax.ByteOffset)}
	case errors.As(err, &meaning) && errors.Is(err, json.ErrUnknownName):
		return &Fault{Location: location(meaning.JSONPointer), Message: "is not known here"}
	case errors.As(err, &meaning):
		return &Fault{Location: location(meaning.JSONPointer), Message: mismatch(meaning)}
	}
	return &Fault{Location: "body", Message: err.Error()}
}

// mismatch says what a value should have been.
func mismatch(e *json.SemanticError) string {
	text := "does not fit"
	if e.JSONKind != 0 {
		text = "must not be a " + e.JSONKind.String()
	}
	if e.GoType != nil {
		text += ", wanted " + e.GoType.Kind().String()
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// findNUL looks for a string with a NUL in it. As a bare byte it is no JSON anyway.
func findNUL(body []byte) (jsontext.Pointer, bool) {
	if !bytes.Contains(body, []byte(`\u0000`)) {
		return "", false
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return "", false // the end, or a fault that decoding will name
		}
		if token.Kind() == '"' && strings.ContainsRune(token.String(), 0) {
			return d.StackPointer(), true
		}
	}
}

// location writes a JSON pointer as people read it: body.items[0].quantity.
func location(p jsontext.Pointer) string {
	var text strings.Builder
	text.WriteString("body")
	for token := range p.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 31); err == nil {
			text.WriteString("[" + token + "]")
		} else {
			text.WriteString("." + strings.ReplaceAll(token, "\x00", "\uFFFD"))
		}
	}
	return text.String()
}

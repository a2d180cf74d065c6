package orders

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	strict "github.com/go-json-experiment/json"
)

// maxFaults bounds an answer: a cart of 10,000 bad lines is told of the first hundred.
const maxFaults = 100

// Body is a JSON request body that is read strictly and checked against the schema of T, the same that stands in the
// OpenAPI document. All faults are reported at once, each with its path.
type Body[T any] struct {
	Value  T
	faults []error
}

// Schema is T's.
func (Body[T]) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[T](), true, "")
}

// Resolve hands the faults to huma.
func (b *Body[T]) Resolve(huma.Context) []error { return b.faults }

var _ huma.Resolver = (*Body[any])(nil)

func (b *Body[T]) read(r huma.Registry, data []byte) {
	tree, faults, err := readJSON(data)
	if err != nil {
		b.faults = []error{malformed("body", err.Error())}
		return
	}
	told := map[string]bool{}
	for _, f := range faults {
		b.faults = append(b.faults, &huma.ErrorDetail{Location: f.path, Message: f.message})
		told[f.path] = told[f.path] || f.message == isNull
	}
	var found huma.ValidateResult
	huma.Validate(r, b.Schema(r), huma.NewPathBuffer([]byte("body"), 4), huma.ModeWriteToServer, tree, &found)
	for _, err := range found.Errors {
		if detail, ok := err.(*huma.ErrorDetail); !ok || !told[detail.Location] { // that a null is no text is not worth a line of its own
			b.faults = append(b.faults, err)
		}
	}
	if len(b.faults) == 0 {
		// The check above lets a name in other capitals pass; this reading does not.
		if err := strict.Unmarshal(data, &b.Value, strict.RejectUnknownMembers(true)); err != nil {
			b.faults = []error{misread(err)}
		}
	}
	if len(b.faults) > maxFaults {
		b.faults = append(b.faults[:maxFaults], &huma.ErrorDetail{Location: "body", Message: "and more of the kind"})
	}
}

// misread says where a body does not fit its type.
func misread(err error) error {
	var semantic *strict.SemanticError
	if !errors.As(err, &semantic) {
		return malformed("body", err.Error())
	}
	at := "body"
	for token := range semantic.JSONPointer.Tokens() {
		if strings.Trim(token, "0123456789") == "" {
			at += "[" + token + "]"
		} else {
			at += "." + token
		}
	}
	message := "does not have the form that is wanted"
	if errors.Is(err, strict.ErrUnknownName) {
		message = "unexpected property"
	}
	return &huma.ErrorDetail{Location: at, Message: message}
}

// jsonFormat reads bodies strictly and writes answers.
func jsonFormat(r huma.Registry) huma.Format {
	return huma.Format{
		Marshal: func(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) },
		Unmarshal: func(data []byte, v any) error {
			if optional := reflect.ValueOf(v).Elem(); optional.Kind() == reflect.Pointer { // a body that may be absent, and is not
				optional.Set(reflect.New(optional.Type().Elem()))
				v = optional.Interface()
			}
			if body, ok := v.(interface {
				read(huma.Registry, []byte)
			}); ok {
				body.read(r, data)
				return nil
			}
			return json.Unmarshal(data, v)
		},
	}
}

// badRequest is a fault that makes the whole answer a 400 instead of a 422.
type badRequest struct{ fault }

func (b badRequest) Error() string { return b.path + " " + b.message }

// GetStatus is asked by huma.
func (b badRequest) GetStatus() int { return http.StatusBadRequest }

// ErrorDetail is asked by huma.
func (b badRequest) ErrorDetail() *huma.ErrorDetail {
	return &huma.ErrorDetail{Location: b.path, Message: b.message}
}

func malformed(location, message string) error { return badRequest{fault{location, message}} }

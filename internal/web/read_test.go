package web_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"chorus/internal/web"
)

type order struct {
	Customer string `json:"customer"`
	Items    []item `json:"items"`
}

type item struct {
	SKU      string `json:"sku"`
	Quantity int64  `json:"quantity"`
}

// post has a body read by a handler and returns what came of it.
func post(t *testing.T, body string, limit int64) (got order, status int, problem web.Problem) {
	t.Helper()
	rec := httptest.NewRecorder()
	if web.Read(rec, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), limit, &got) {
		return got, http.StatusOK, problem
	}
	if kind := rec.Header().Get("Content-Type"); kind != "application/problem+json" {
		t.Errorf("answered as %q", kind)
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &problem); err != nil {
		t.Fatalf("problem %q: %v", rec.Body, err)
	}
	return got, rec.Code, problem
}

func TestReadTakesWhatIsWanted(t *testing.T) {
	t.Parallel()
	got, status, problem := post(t, ` {"items":[{"sku":"T\u00c9A \\u0000","quantity":9007199254740993}],"customer":""} `+"\n", 1000)
	want := order{Items: []item{{SKU: `TÉA \u0000`, Quantity: 9007199254740993}}}
	if diff := cmp.Diff(want, got); diff != "" || status != http.StatusOK {
		t.Errorf("%d %+v %s", status, problem, diff)
	}
}

// Each of these is mended by encoding/json without a word.
func TestReadRefusesWhatOthersMend(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, location string }{
		"member twice":          {`{"customer":"ada","customer":"bob"}`, "body.customer"},
		"member twice, escaped": {`{"customer":"ada","\u0063ustomer":"bob"}`, "body.customer"},
		"other letters":         {`{"Customer":"ada"}`, "body.Customer"},
		"unknown member":        {`{"items":[{"sku":"A","quantity":1,"price":0}]}`, "body.items[0].price"},
		"second document":       {`{"customer":"ada"} {"customer":"bob"}`, "body"},
		"trailing bracket":      {`{"customer":"ada"}]`, "body"},
		"broken UTF-8":          {"{\"customer\":\"a\xff\"}", "body.customer"},
		"half a surrogate":      {`{"customer":"\ud800"}`, "body.customer"},
		"NUL":                   {`{"items":[{"sku":"A\u0000","quantity":1}]}`, "body.items[0].sku"},
		"NUL in a name":         {`{"\u0000":1}`, "body.\uFFFD"},
		"bare NUL":              {"{\"customer\":\"a\x00\"}", "body.customer"},
		"fraction":              {`{"items":[{"sku":"A","quantity":1.5}]}`, "body.items[0].quantity"},
		"out of range":          {`{"items":[{"sku":"A","quantity":9223372036854775808}]}`, "body.items[0].quantity"},
		"number as text":        {`{"items":[{"sku":"A","quantity":"1"}]}`, "body.items[0].quantity"},
		"text as number":        {`{"customer":7}`, "body.customer"},
		"array for object":      {`[]`, "body"},
		"nothing":               {``, "body"},
		"blanks":                {"  \n", "body"},
		"half a document":       {`{"customer":"ada"`, "body"},
		"not JSON":              {`customer=ada`, "body"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, status, problem := post(t, c.body, 1000)
			if status != http.StatusBadRequest || len(problem.Errors) != 1 {
				t.Fatalf("%d %+v", status, problem)
			}
			if got := problem.Errors[0]; got.Location != c.location || got.Message == "" {
				t.Errorf("%+v, want it at %s", got, c.location)
			}
		})
	}
}

func TestReadStopsAtTheLimit(t *testing.T) {
	t.Parallel()
	body := `{"customer":"` + strings.Repeat("a", 100) + `"}`
	if _, status, _ := post(t, body, int64(len(body))); status != http.StatusOK {
		t.Errorf("a body of just the limit: %d", status)
	}
	if _, status, _ := post(t, body, int64(len(body))-1); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of one byte more: %d", status)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"customer":"\u0000","items":[{"sku":"\\u0000"}]}`))
	f.Add([]byte("{\"customer\":\"\xff\"}{"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var got order
		if web.Decode(body, &got) != nil {
			return
		}
		// What was taken reads the same for a lenient reader, and can be stored.
		var lenient order
		if err := json.Unmarshal(body, &lenient); err != nil {
			t.Fatalf("%q was taken and is no JSON: %v", body, err)
		}
		if diff := cmp.Diff(lenient, got); diff != "" {
			t.Fatalf("%q: %s", body, diff)
		}
		if strings.ContainsRune(got.Customer, 0) {
			t.Fatalf("%q holds NUL", body)
		}
	})
}

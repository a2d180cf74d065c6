package orders

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"chorus/internal/event"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Token = "secret" })
	r.ddl(`INSERT INTO products VALUES ('A', '', 1, 'GBP')`)
	for _, test := range []struct {
		method, path, body string
		headers            []string
		status             int
	}{
		{"GET", "/v1/orders", "", nil, 401},
		{"GET", "/v1/orders", "", []string{"Authorization", "Bearer secre"}, 401},
		{"GET", "/v1/orders", "", []string{"Authorization", "Basic secret"}, 401},
		{"GET", "/v1/orders", "", []string{"Authorization", "Bearer secret"}, 200},
		{"GET", "/openapi.json", "", nil, 200},
		{"POST", "/v1/orders", one, nil, 401},
		{"POST", "/v1/orders", one, []string{"Authorization", "Bearer secret"}, 202},
		{"GET", "/v1/nothing", "", nil, 404},
		{"GET", "/v1/orders/1/2/3", "", nil, 404},
		{"DELETE", "/v1/orders/1001", "", nil, 405},
		{"GET", "/v1/orders/1001/cancel", "", nil, 405},
	} {
		got := r.call(test.method, test.path, test.body, test.headers...)
		if got.status != test.status {
			t.Errorf("%s %s %v: %s; want %d", test.method, test.path, test.headers, got, test.status)
		}
		if test.status >= 400 {
			got.problem(t)
		}
		if test.status == 405 && got.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", test.method, test.path)
		}
		if test.status == 401 && got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s %s: no WWW-Authenticate", test.method, test.path)
		}
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	for contentType, status := range map[string]int{
		"": 202, "application/json": 202, "application/json; charset=utf-8": 202, "application/json;charset=UTF-8": 202, "Application/JSON": 202,
		"application/json; charset=latin1": 415, "text/plain": 415, "application/x-www-form-urlencoded": 415, "application/xml": 415, "json": 415, ";": 415,
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", r.url+"/v1/orders", strings.NewReader(one))
		if err != nil {
			t.Fatal(err)
		}
		if contentType != "" {
			req.Header.Set("Content-Type", contentType)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%q: %d, want %d", contentType, resp.StatusCode, status)
		}
	}
	for encoding, status := range map[string]int{"gzip": 415, "identity, br": 415, "Identity": 202} { // sent plain, whatever it says
		if got := r.call("POST", "/v1/orders", one, "Content-Encoding", encoding); got.status != status {
			t.Errorf("Content-Encoding %s: %s, want %d", encoding, got, status)
		}
	}
	huge := `{"customer":"` + strings.Repeat("x", 10<<20) + `"`
	for range 3 {
		// The server may answer and hang up before it has read all; then the client sees one or the other.
		if got, err := r.try("POST", "/v1/orders", huge); err == nil && got.status != 413 {
			t.Errorf("10 MB: %s", got)
		}
	}
	if got := r.call("POST", "/v1/orders", one); got.status != 202 {
		t.Errorf("after it: %s", got)
	}
}

// TestSlowBody checks that a body that does not come is given up, while others are served.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequestTimeout = 2 * time.Second })
	r.sell([3]string{"A", "1.00", "GBP"})
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /v1/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	if got := r.call("POST", "/v1/orders", one); got.status != 202 {
		t.Errorf("meanwhile: %s", got)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
		t.Errorf("%q, %v; want 408", answer, err)
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RateLimit = 0.001 }) // one, and the next in a quarter of an hour
	r.sell([3]string{"A", "1.00", "GBP"})
	got := r.call("POST", "/v1/orders", one)
	if got.status != 429 || got.header.Get("Retry-After") == "" {
		t.Errorf("%s", got)
	}
	got.problem(t)
	if got := r.call("GET", "/v1/orders", ""); got.status != 200 {
		t.Errorf("reading: %s", got)
	}
}

// TestDatabaseAway checks that trouble is a 503 without inner text, that it is not kept under the key, and passes (API-04).
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.RequestTimeout = 300 * time.Millisecond })
	r.sell([3]string{"A", "1.00", "GBP"})
	tx, err := r.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), `LOCK TABLE orders IN ACCESS SHARE MODE; LOCK TABLE order_states IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	got := r.call("POST", "/v1/orders", one, "Idempotency-Key", "K")
	if got.status != 503 || got.header.Get("Retry-After") == "" || strings.Contains(string(got.body), "context") {
		t.Errorf("%s", got)
	}
	got.problem(t)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.call("POST", "/v1/orders", one, "Idempotency-Key", "K"); got.status != 202 || r.placements() != [3]int{1, 1, 1} {
		t.Errorf("again: %s", got)
	}
}

// document is what the service says of itself.
func (r *rig) document() (paths map[string]map[string]struct {
	OperationID string `json:"operationId"`
	Responses   map[string]struct {
		Content map[string]json.RawMessage
	}
}) {
	r.t.Helper()
	doc := read[struct {
		OpenAPI string
		Paths   json.RawMessage
	}](r.t, r.call("GET", "/openapi.json", ""))
	if doc.OpenAPI != "3.1.0" {
		r.t.Errorf("OpenAPI %q", doc.OpenAPI)
	}
	if err := json.Unmarshal(doc.Paths, &paths); err != nil {
		r.t.Fatal(err)
	}
	return paths
}

// TestOpenAPIListsTheRoutes compares the document with the contract and with what the mux takes.
func TestOpenAPIListsTheRoutes(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	var got []string
	for path, operations := range r.document() {
		for method := range operations {
			got = append(got, strings.ToUpper(method)+" "+path)
			concrete := strings.ReplaceAll(path, "{order}", "1")
			if answer := r.call(strings.ToUpper(method), concrete, ""); answer.status == 405 || (answer.status == 404 && !strings.Contains(string(answer.body), "no order 1")) {
				t.Errorf("%s %s is not there: %s", method, path, answer)
			}
		}
	}
	slices.Sort(got)
	want := []string{
		"GET /v1/orders", "GET /v1/orders/{order}", "GET /v1/products",
		"POST /v1/orders", "POST /v1/orders/{order}/cancel", "POST /v1/orders/{order}/deliver", "POST /v1/orders/{order}/resolve",
		"POST /v1/orders/{order}/retry", "POST /v1/orders/{order}/ship", "PUT /v1/products",
	}
	if !slices.Equal(got, want) {
		t.Errorf("routes %v, want %v", got, want)
	}
}

// TestOpenAPIIsTrue sends good and bad requests to every operation: each answer's status, media type and body must be as the document
// has them, and nothing may end in a 5xx.
func TestOpenAPIIsTrue(t *testing.T) {
	t.Parallel()
	r := newKeyRig(t)
	paths := r.document()
	mux := http.NewServeMux()
	described := (&api{cfg: r.cfg}).register(mux) // the same document with its schemas in a form that checks
	seen := map[string]bool{}

	check := func(method, template, path, body string, headers ...string) {
		t.Helper()
		got := r.call(method, path, body, headers...)
		what := fmt.Sprintf("%s %s %s", method, path, clip(body, 80))
		if got.status >= 500 && got.status != 503 {
			t.Errorf("%s: %s", what, got)
			return
		}
		op, ok := paths[template][strings.ToLower(method)]
		if !ok {
			t.Fatalf("%s %s is not in the document", method, template)
		}
		media, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
		if _, ok := op.Responses[strconv.Itoa(got.status)].Content[media]; !ok {
			t.Errorf("%s: %d %s is not in the document of %s", what, got.status, media, op.OperationID)
			return
		}
		item := described.Paths[template]
		operation := map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put}[method]
		schema := operation.Responses[strconv.Itoa(got.status)].Content[media].Schema
		var tree any
		if err := json.Unmarshal(got.body, &tree); err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		var found huma.ValidateResult
		huma.Validate(described.Components.Schemas, schema, huma.NewPathBuffer([]byte("answer"), 6), huma.ModeReadFromServer, tree, &found)
		for _, err := range found.Errors {
			t.Errorf("%s: %s: %v", what, got, err)
		}
		seen[fmt.Sprint(op.OperationID, " ", got.status)] = true
	}
	const orders, single = "/v1/orders", "/v1/orders/{order}"
	confirmed := r.place("ada", Item{"A", 1}).Number
	r.hear(confirmed, event.PaymentTaken{Amount: 100, Currency: "GBP"})
	stuck := r.place("ada", Item{"A", 1}).Number
	r.hear(stuck, event.UndoStuck{Step: event.PaymentStep, Reason: "no answer"})

	check("POST", orders, orders, one)
	check("POST", orders, orders, one, "Idempotency-Key", "K")
	check("POST", orders, orders, one, "Idempotency-Key", "K")
	check("POST", orders, orders, strings.Replace(one, ":1}", ":2}", 1), "Idempotency-Key", "K")
	check("POST", orders, orders, one, "Idempotency-Key", " ")
	for _, odd := range []string{``, `{`, `[]`, `null`, `"x"`, `1`, `{}`, `{"customer":1,"items":{},"shipping":[]}`, `{"customer":null}`, strings.Replace(one, `"A"`, `"B"`, 1), strings.Replace(one, "domestic", "Domestic", 1)} {
		check("POST", orders, orders, odd)
		check("PUT", "/v1/products", "/v1/products", odd)
		for _, move := range []string{"cancel", "ship", "deliver", "resolve", "retry"} {
			check("POST", single+"/"+move, "/v1/orders/"+stuck.String()+"/"+move, odd)
		}
	}
	check("POST", orders, orders, one, "Content-Type", "text/plain")
	for _, query := range []string{"", "?limit=1", "?limit=1&after=" + stuck.String(), "?before=1", "?status=PLACED", "?status=x", "?limit=-1", "?after=x", "?x=1", "?%00=1", "?%00=", "?customer=", "?customer=%zz", "?customer=ada", "?needs_attention=true"} {
		check("GET", orders, orders+query, "")
	}
	for _, number := range []string{confirmed.String(), stuck.String(), "999999", "0", "x", strings.Repeat("9", 30)} {
		check("GET", single, "/v1/orders/"+number, "")
		for _, move := range []string{"ship", "deliver", "cancel"} {
			check("POST", single+"/"+move, "/v1/orders/"+number+"/"+move, "")
			check("POST", single+"/"+move, "/v1/orders/"+number+"/"+move, "{}")
		}
		check("POST", single+"/resolve", "/v1/orders/"+number+"/resolve", `{"step":"payment","evidence":"x"}`)
		check("POST", single+"/retry", "/v1/orders/"+number+"/retry", `{"step":"payment"}`)
	}
	check("PUT", "/v1/products", "/v1/products", `[{"sku":"B","name":"b","price":"1","currency":"GBP"}]`)
	check("PUT", "/v1/products", "/v1/products", `[{"sku":"B","name":"b","price":"1","currency":"ZZZ"}]`)
	for _, query := range []string{"", "?limit=1", "?after=A", "?limit=0", "?after=%ff"} {
		check("GET", "/v1/products", "/v1/products"+query, "")
	}
	for _, want := range []string{"place-order 202", "place-order 400", "place-order 422", "get-order 200", "get-order 404", "list-orders 200", "list-orders 400", "list-orders 422",
		"ship-order 200", "ship-order 409", "ship-order 404", "cancel-order 409", "deliver-order 200", "resolve-step 503", "retry-step 422", "list-products 200", "set-products 200", "set-products 422"} {
		if !seen[want] {
			t.Errorf("no request had the answer %s", want)
		}
	}
}

package orders

import (
	"context"
	"crypto/subtle"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/jackc/pgx/v5/pgxpool"

	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/inspect"
	"chorus/internal/participant"
	"chorus/internal/pg"
	"chorus/internal/web"
	"chorus/services/orders/order"
)

// api is the HTTP API of orders. The OpenAPI document is made from the same types and tags that check requests.
type api struct {
	log    *slog.Logger
	db     *pgxpool.Pool
	door   *participant.Door[order.State]
	cfg    Config
	till   *till
	routes http.Handler
	owners map[event.Step]inspect.Client // who does what a person asks of a stuck step
}

// newAPI returns the handler of /v1/ and /openapi.json.
func newAPI(log *slog.Logger, db *pgxpool.Pool, door *participant.Door[order.State], cfg Config) *api {
	traced := &http.Client{Transport: participant.Tracing{}}
	a := &api{log: log, db: db, door: door, cfg: cfg, till: newTill(), owners: map[event.Step]inspect.Client{
		event.StockStep:    {Base: cfg.InventoryURL, HTTP: traced},
		event.ShipmentStep: {Base: cfg.ShippingURL, HTTP: traced},
		event.PaymentStep:  {Base: cfg.BillingURL, HTTP: traced},
	}}
	mux := http.NewServeMux()
	document := a.register(mux)
	text, err := openAPI(document)
	if err != nil {
		panic(err) // it is made of constants
	}
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text) // the client may be gone
	})
	a.routes = a.guard(mux)
	return a
}

// ServeHTTP answers a request.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.routes.ServeHTTP(w, r) }

// register adds the operations to mux and returns their description.
func (a *api) register(mux *http.ServeMux) *huma.OpenAPI {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	h := humago.New(mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{Title: "chorus orders", Version: "1", Description: "Places orders, shows them, and takes the requests that change their course. " +
				"Errors are RFC 9457 problems that name every fault with its path. Money is in minor units of the currency."},
			Components: &huma.Components{Schemas: schemas},
		},
		Formats: map[string]huma.Format{
			"application/json": jsonFormat(schemas),
			"json":             jsonFormat(schemas), // of application/problem+json
		},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{modest},
	})
	if a.cfg.Token != "" {
		doc := h.OpenAPI()
		doc.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
		doc.Security = []map[string][]string{{"token": {}}}
	}
	a.registerPlace(h)
	a.registerRead(h)
	a.registerMoves(h)
	a.registerSteps(h)
	a.registerProducts(h)
	return h.OpenAPI()
}

// modest takes the request's own values out of an error: they may be long, and a log is not the place for them. Names are the request's
// too, and may hold NUL.
func modest(_ huma.Context, _ string, v any) (any, error) {
	if problem, ok := v.(*huma.ErrorModel); ok {
		for _, f := range problem.Errors {
			f.Value = nil
			f.Location = clip(strings.ReplaceAll(f.Location, "\x00", "\uFFFD"), 200)
		}
	}
	return v, nil
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// guard is what every request passes first: token, rate, media type, time, and a problem for a path or method that is not there.
func (a *api) guard(mux *http.ServeMux) http.Handler {
	limit := newLimiter(a.cfg.RateLimit, a.cfg.proxies)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		status, fault := checkQuery(r.URL.RawQuery)
		writes := r.Method == http.MethodPost || r.Method == http.MethodPut
		switch {
		case pattern == "":
			a.nowhere(mux, w, r)
		case !a.allowed(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			web.Fail(w, http.StatusUnauthorized, "a bearer token is needed")
		case fault != nil:
			web.Fail(w, status, "the query cannot be taken", *fault)
		case writes && !isJSON(r.Header.Get("Content-Type")):
			web.Fail(w, http.StatusUnsupportedMediaType, "the body must be application/json in UTF-8")
		case writes && r.Header.Get("Content-Encoding") != "" && !strings.EqualFold(r.Header.Get("Content-Encoding"), "identity"):
			w.Header().Set("Accept-Encoding", "identity") // RFC 9110, 12.5.3
			web.Fail(w, http.StatusUnsupportedMediaType, "the body must not be compressed")
		default:
			if writes {
				r.Header.Set("Content-Type", "application/json") // huma knows it by this spelling alone
				if after, ok := limit.allow(r); !ok {
					w.Header().Set("Retry-After", after)
					web.Fail(w, http.StatusTooManyRequests, "too many requests of this client")
					return
				}
			}
			ctx, cancel := context.WithTimeout(audit.By(participant.Traced(r), audit.Who(r, audit.Unknown)), a.cfg.RequestTimeout)
			defer cancel()
			mux.ServeHTTP(w, r.WithContext(ctx))
		}
	})
}

// nowhere answers for a path that does not exist or does not take the method.
func (a *api) nowhere(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	var allow []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "" {
			allow = append(allow, method)
		}
	}
	if len(allow) == 0 {
		web.Fail(w, http.StatusNotFound, "there is nothing at this path")
		return
	}
	w.Header().Set("Allow", strings.Join(allow, ", "))
	web.Fail(w, http.StatusMethodNotAllowed, "this path takes "+strings.Join(allow, ", "))
}

// allowed compares the token in constant time. The description of the API is open to all.
func (a *api) allowed(r *http.Request) bool {
	if a.cfg.Token == "" || r.URL.Path == "/openapi.json" {
		return true
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(given), []byte(a.cfg.Token)) == 1
}

func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, params, err := mime.ParseMediaType(contentType)
	charset := params["charset"]
	return err == nil && media == "application/json" && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

// trouble is the answer to an error that is not the request's fault. Its cause is logged and not told.
func (a *api) trouble(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil || pg.Transient(err) {
		a.log.Warn(what, "err", err)
		return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable("the service cannot "+what+" at this moment"), http.Header{"Retry-After": {"1"}})
	}
	a.log.Error(what, "err", err)
	return huma.Error500InternalServerError("the service could not " + what)
}

// parseNumber reads an order number from a path or cursor: any of 16 digits, because a number that is too large is that of no order.
func parseNumber(location, text string) (event.OrderNo, error) {
	n, err := event.ParseOrderNo(text)
	if err != nil || len(text) > 16 {
		return 0, huma.Error400BadRequest("the order number cannot be read", &huma.ErrorDetail{
			Location: location, Message: "want 1 to 16 digits without sign or leading zeros"})
	}
	return n, nil
}

// storable reports whether PostgreSQL can hold the text.
func storable(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

func noOrder(number event.OrderNo) error {
	return huma.Error404NotFound("there is no order " + number.String())
}

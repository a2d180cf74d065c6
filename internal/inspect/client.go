package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/web"
)

// Client asks one participant.
type Client struct {
	Base string // as in http://127.0.0.1:8101
	HTTP *http.Client
}

// Order asks what the participant knows of an order.
func (c Client) Order(ctx context.Context, order event.OrderNo, facts []event.ID) (o Order, err error) {
	ids := make([]string, len(facts))
	for i, id := range facts {
		ids[i] = id.String()
	}
	err = c.Do(ctx, http.MethodGet, "/v1/inspect/orders/"+order.String()+"?facts="+url.QueryEscape(strings.Join(ids, ",")), nil, &o)
	return o, err
}

// States asks for a page of all states with numbers above after.
func (c Client) States(ctx context.Context, after event.OrderNo, limit int) ([]State, error) {
	var body struct {
		States []State `json:"states"`
	}
	err := c.Do(ctx, http.MethodGet, fmt.Sprintf("/v1/inspect/states?after=%s&limit=%d", after, limit), nil, &body)
	return body.States, err
}

// Figures asks for the counts.
func (c Client) Figures(ctx context.Context) (f Figures, err error) {
	err = c.Do(ctx, http.MethodGet, "/v1/inspect/figures", nil, &f)
	return f, err
}

// Letters asks for a page of dead letters.
func (c Client) Letters(ctx context.Context, f LetterFilter, limit int) ([]Letter, error) {
	var body struct {
		Letters []Letter `json:"dead_letters"`
	}
	q := f.query()
	q.Set("limit", strconv.Itoa(limit))
	err := c.Do(ctx, http.MethodGet, "/v1/inspect/dead-letters?"+q.Encode(), nil, &body)
	return body.Letters, err
}

// Audit asks for a page of what people did, the newest first.
func (c Client) Audit(ctx context.Context, f AuditFilter, limit int) ([]audit.Entry, error) {
	var body struct {
		Entries []audit.Entry `json:"audit"`
	}
	q := f.query()
	q.Set("limit", strconv.Itoa(limit))
	err := c.Do(ctx, http.MethodGet, "/v1/inspect/audit?"+q.Encode(), nil, &body)
	return body.Entries, err
}

// Letter asks for one dead letter with its bytes.
func (c Client) Letter(ctx context.Context, id int64) (l Letter, err error) {
	err = c.Do(ctx, http.MethodGet, "/v1/inspect/dead-letters/"+strconv.FormatInt(id, 10), nil, &l)
	return l, err
}

// Redrive has a dead letter handled again, or with a preview says what that would come to. A letter that is still at fault is a *web.Problem of status 422, and
// one that may not be redriven of 409.
func (c Client) Redrive(ctx context.Context, id int64, how RedriveRequest) (v Redriven, err error) {
	err = c.Do(ctx, http.MethodPost, "/v1/inspect/dead-letters/"+strconv.FormatInt(id, 10)+"/redrive", how, &v)
	return v, err
}

// Discard closes a dead letter unhandled. reason says who decided that and on what grounds.
func (c Client) Discard(ctx context.Context, id int64, reason string) error {
	return c.Do(ctx, http.MethodPost, "/v1/inspect/dead-letters/"+strconv.FormatInt(id, 10)+"/discard", map[string]string{"reason": reason}, nil)
}

// Do sends a request with an optional JSON body and reads the answer into out. An answer that is not 2xx
// is a *web.Problem. The request names who acts in ctx (audit.By).
func (c Client) Do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if who := audit.Of(ctx); who != "" {
		req.Header.Set(audit.Header, who)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		problem := &web.Problem{}
		_ = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(problem) // what cannot be read leaves the status
		problem.Status = resp.StatusCode
		if problem.Title == "" {
			problem.Title = resp.Status
		}
		return problem
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	}
	return nil
}

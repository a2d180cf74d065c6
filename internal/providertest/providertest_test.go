package providertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ask sends one POST on a connection of its own. GetBody is taken away, or net/http would repeat it by itself.
func ask(ctx context.Context, url, body string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/charges?x=1", strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.GetBody = nil
	req.Header.Set("Idempotency-Key", "k1")
	c := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return res, data, err
}

func TestAnswersFollowTheScript(t *testing.T) {
	t.Parallel()
	p := Start(t,
		Answer{Status: 503, Header: http.Header{"Retry-After": {"2"}}},
		HTML(500),
		Redirect(302, "/login"))
	p.Then(JSON(201, `{"id":"ch_1"}`))

	var got []string
	for _, header := range []string{"Retry-After", "Content-Type", "Location", "Content-Type"} {
		res, body, err := ask(t.Context(), p.URL, `{"amount":5}`)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, res.Status+" "+res.Header.Get(header)+" "+string(body))
	}
	want := []string{
		"503 Service Unavailable 2 ",
		"500 Internal Server Error text/html; charset=utf-8 <!DOCTYPE html><html><body><h1>Internal Server Error</h1></body></html>",
		"302 Found /login ",
		`201 Created application/json {"id":"ch_1"}`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("answers (-want +got):\n%s", d)
	}
	seen := p.Requests()
	if len(seen) != 4 || p.Unused() != 0 {
		t.Fatalf("%d requests seen and %d answers unused, want 4 and 0", len(seen), p.Unused())
	}
	r := seen[3]
	if r.Method != "POST" || r.Path != "/charges?x=1" || r.Key() != "k1" || string(r.Body) != `{"amount":5}` {
		t.Errorf("recorded %s %s with key %q and body %q", r.Method, r.Path, r.Key(), r.Body)
	}
}

func TestCutBodyIsNoticedByTheCaller(t *testing.T) {
	t.Parallel()
	a := JSON(200, `{"id":"ch_1","status":"paid"}`)
	a.CutAt = 16
	p := Start(t, a, Answer{Status: 200, Fault: CloseAfterHeaders})

	res, body, err := ask(t.Context(), p.URL, "{}")
	if res == nil || res.StatusCode != 200 || !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != `{"id":"ch_1","st` {
		t.Errorf("cut answer: body %q, error %v", body, err)
	}
	res, body, err = ask(t.Context(), p.URL, "{}")
	if res == nil || res.StatusCode != 200 || !errors.Is(err, io.ErrUnexpectedEOF) || len(body) != 0 {
		t.Errorf("answer without its body: body %q, error %v", body, err)
	}
}

func TestClosedConnections(t *testing.T) {
	t.Parallel()
	p := Start(t, Answer{Fault: CloseAfterReading}, Answer{Fault: CloseBeforeReading})

	if _, _, err := ask(t.Context(), p.URL, "{}"); !errors.Is(err, io.EOF) {
		t.Errorf("closed after reading: %v, want EOF", err)
	}
	large := string(bytes.Repeat([]byte("x"), 8<<20)) // more than the buffers between hold
	_, _, err := ask(t.Context(), p.URL, large)
	if err == nil || errors.Is(err, io.EOF) { // a reset, which the sender may meet in several forms
		t.Errorf("closed before reading: %v, want a reset", err)
	}
	seen := p.Requests()
	if len(seen) != 2 || string(seen[0].Body) != "{}" || seen[1].Body != nil {
		t.Errorf("recorded %d requests, want 2, the first alone with a body", len(seen))
	}
}

func TestHangEndsWithTheCaller(t *testing.T) {
	t.Parallel()
	p := Start(t, Answer{Fault: Hang}, Answer{Delay: 20 * time.Millisecond, Body: "late"})
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := ask(ctx, p.URL, "{}")
		ended <- err
	}()
	p.Wait(t.Context(), 1)
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("hanging call ended with %v, want the caller's own end", err)
	}
	begin := time.Now()
	_, body, err := ask(t.Context(), p.URL, "{}")
	if took := time.Since(begin); err != nil || string(body) != "late" || took < 20*time.Millisecond {
		t.Errorf("delayed answer: %q after %v, %v", body, took, err)
	}
}

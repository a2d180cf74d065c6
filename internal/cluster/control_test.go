package cluster

import (
	"net/http"
	"strings"
	"testing"
)

func TestControlRefuses(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), addresses(t, 1)
	rig := newRig(t, dir, serviceList(dir, addr...))
	rig.awaitReady()
	for name, tt := range map[string]struct {
		method, path string
		header       http.Header
		host         string
		want         int
	}{
		"all ready":              {"GET", "/readyz", nil, "", 200},
		"unknown process":        {"POST", "/processes/z/kill", nil, "", 404},
		"unknown action":         {"POST", "/processes/a/explode", nil, "", 404},
		"reading an action":      {"GET", "/processes/a/kill", nil, "", 405},
		"wrong state":            {"POST", "/processes/a/thaw", nil, "", 409},
		"another site's page":    {"POST", "/processes/a/kill", http.Header{"Origin": {"https://example.org"}, "Sec-Fetch-Site": {"cross-site"}}, "", 403},
		"a name that is rebound": {"POST", "/processes/a/kill", nil, "example.org:80", 403},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, rig.client.URL+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header, req.Host = tt.header, tt.host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%s: status %d, want %d", name, resp.StatusCode, tt.want)
		}
	}
	if s := rig.get("a"); s.State != Ready || s.Restarts != 0 {
		t.Errorf("a refused request had an effect: %+v", s)
	}
	if _, err := rig.client.Do(t.Context(), "z", ActionKill); err == nil || !strings.Contains(err.Error(), `no process "z"`) {
		t.Errorf("the client does not pass the reason on: %v", err)
	}
	rig.do("a", ActionStop)
	resp, err := http.Get(rig.client.URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("readyz with a stopped process: %d", resp.StatusCode)
	}
}

package orders

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

func from(remote string, forwarded ...string) *http.Request {
	r := httptest.NewRequest("POST", "/v1/orders", nil)
	r.RemoteAddr = remote
	for _, f := range forwarded {
		r.Header.Add("X-Forwarded-For", f)
	}
	return r
}

// TestWhoTheClientIs: what a client says of itself is believed only of proxies that are ours.
func TestWhoTheClientIs(t *testing.T) {
	t.Parallel()
	proxies, err := parseProxies([]string{"127.0.0.0/8", "::1/128", "10.1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	l := newLimiter(1, proxies)
	for _, c := range []struct {
		request *http.Request
		want    string
	}{
		{from("203.0.113.9:1"), "203.0.113.9"},
		{from("203.0.113.9:1", "198.51.100.1"), "203.0.113.9"},
		{from("127.0.0.1:1"), "127.0.0.1"},
		{from("127.0.0.1:1", "198.51.100.1"), "198.51.100.1"},
		{from("[::ffff:127.0.0.1]:1", "198.51.100.1"), "198.51.100.1"},
		{from("127.0.0.1:1", "1.1.1.1, 198.51.100.1"), "198.51.100.1"},
		{from("127.0.0.1:1", "1.1.1.1, 198.51.100.1, 10.1.2.3"), "198.51.100.1"},
		{from("127.0.0.1:1", "1.1.1.1", "198.51.100.1 , 10.1.2.3"), "198.51.100.1"},
		{from("127.0.0.1:1", "nonsense"), "127.0.0.1"},
		{from("127.0.0.1:1", "1.1.1.1, nonsense, 10.1.2.3"), "10.1.2.3"},
		{from("[2001:db8:0:1:aaaa::1]:1"), "2001:db8:0:1::"},
		{from("[fe80::1%eth0]:1"), "fe80::"},
		{from("@"), "invalid IP"},
	} {
		if got := l.client(c.request).String(); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.request.RemoteAddr, c.request.Header, got, c.want)
		}
	}
	for _, bad := range []string{"", "10.0.0.0/33", "host", "10.0.0"} {
		if _, err := parseProxies([]string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestLimitIsPerClient: one client that writes without end takes nothing from another.
func TestLimitIsPerClient(t *testing.T) {
	t.Parallel()
	l := newLimiter(5, nil)
	taken := 0
	for range 100 {
		if _, ok := l.allow(from("203.0.113.9:1")); ok {
			taken++
		}
	}
	if taken < 5 || taken > 20 { // 5 and what has come in meanwhile
		t.Errorf("%d of 100 were taken", taken)
	}
	if after, ok := l.allow(from("203.0.113.9:2")); ok || after != "1" {
		t.Errorf("another connection of the same client: %q %t", after, ok)
	}
	if _, ok := l.allow(from("203.0.113.10:1")); !ok {
		t.Error("another client is held back")
	}
	if after, ok := newLimiter(0, nil).allow(from("203.0.113.9:1")); !ok {
		t.Error("no limit holds back", after)
	}
}

// TestLimitForgetsTheQuiet: memory stays bounded, and who writes all the time is not forgotten.
func TestLimitForgetsTheQuiet(t *testing.T) {
	t.Parallel()
	l := newLimiter(0.001, nil)
	l.most = 100
	busy := from("203.0.113.9:1")
	l.allow(busy)
	for i := range 1000 {
		l.allow(from(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256)))
		if _, ok := l.allow(busy); ok {
			t.Fatalf("the busy client was forgotten after %d others", i+1)
		}
	}
	if len(l.clients) != 100 || l.recent.Len() != 100 {
		t.Errorf("%d and %d clients are remembered", len(l.clients), l.recent.Len())
	}
	if _, known := l.clients[netip.MustParseAddr("10.0.0.0")]; known {
		t.Error("the first is remembered")
	}
}

package cluster

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	probeEvery   = 50 * time.Millisecond
	probeTimeout = time.Second
)

// probe returns true once the address answers, false when ctx ends first.
func probe(ctx context.Context, client *http.Client, ready string) bool {
	if ready == "" {
		return true
	}
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for !answers(ctx, client, ready) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func answers(ctx context.Context, client *http.Client, ready string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if strings.HasPrefix(ready, "tcp://") {
		u, err := url.Parse(ready)
		if err != nil {
			return false
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, ready, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

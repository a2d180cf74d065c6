package orders

import (
	"container/list"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// mostClients bounds the memory of a limiter, to a few MB. Beyond it the client that was quiet longest is forgotten, and begins anew with a
// full burst: whoever commands that many addresses is not held back by a limit per address, and must not cost memory either.
const mostClients = 10_000

// limiter allows each client so many writes a second, with bursts of as many. A client is an address, and for IPv6 a network of 64
// bits, since one machine may use all addresses of that; there is one token for all, so it tells nobody apart. Each replica counts for itself.
type limiter struct {
	each    rate.Limit
	burst   int
	most    int
	proxies []netip.Prefix // whose X-Forwarded-For is believed

	mu      sync.Mutex // guards what follows
	clients map[netip.Addr]*list.Element
	recent  list.List // of *client, the one that wrote last in front
}

type client struct {
	addr   netip.Addr
	bucket *rate.Limiter
}

// newLimiter returns nil, which allows everything, for a limit of 0.
func newLimiter(perSecond float64, proxies []netip.Prefix) *limiter {
	if perSecond == 0 {
		return nil
	}
	return &limiter{
		each: rate.Limit(perSecond), burst: max(1, int(perSecond)), most: mostClients,
		proxies: proxies, clients: map[netip.Addr]*list.Element{},
	}
}

// allow takes a token of the request's client, or says in how many whole seconds there will be one.
func (l *limiter) allow(r *http.Request) (after string, ok bool) {
	if l == nil {
		return "", true
	}
	now := time.Now()
	asked := l.bucket(l.client(r)).ReserveN(now, 1)
	wait := asked.DelayFrom(now)
	if wait == 0 {
		return "", true
	}
	asked.CancelAt(now)
	return strconv.Itoa(int(min(math.Ceil(wait.Seconds()), 3600))), false
}

func (l *limiter) bucket(addr netip.Addr) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.clients[addr]; ok {
		l.recent.MoveToFront(known)
		return known.Value.(*client).bucket
	}
	if len(l.clients) >= l.most {
		quiet := l.recent.Back()
		delete(l.clients, l.recent.Remove(quiet).(*client).addr)
	}
	c := &client{addr, rate.NewLimiter(l.each, l.burst)}
	l.clients[addr] = l.recent.PushFront(c)
	return c.bucket
}

// client is who sent the request: the other end of the connection or, when that is a proxy of ours, the last address in
// X-Forwarded-For that is none. What stands before it may be the client's invention.
func (l *limiter) client(r *http.Request) netip.Addr {
	end, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{} // no TCP: one client for all
	}
	addr := end.Addr().Unmap().WithZone("")
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		next, err := netip.ParseAddr(strings.TrimSpace(hop))
		if !l.ours(addr) || err != nil {
			break
		}
		addr = next.Unmap().WithZone("")
	}
	if addr.Is6() {
		network, _ := addr.Prefix(64)
		addr = network.Addr()
	}
	return addr
}

func (l *limiter) ours(addr netip.Addr) bool {
	return slices.ContainsFunc(l.proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// parseProxies reads networks in CIDR notation, or single addresses.
func parseProxies(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if addr, single := netip.ParseAddr(text); err != nil && single == nil {
			p, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

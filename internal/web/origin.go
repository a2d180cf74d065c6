package web

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

// sameOrigin refuses changes that a page of another origin asks for.
func sameOrigin(h http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		Fail(w, http.StatusForbidden, "a page of another origin may not ask for changes here")
	}))
	return protection.Handler(h)
}

// ownHosts refuses requests to a loopback address that name a host which is not one. A page of a name that its owner
// lets point to this machine (DNS rebinding) is of the same origin for the browser, and could otherwise read and do
// everything here. On other addresses any name may be ours.
func ownHosts(at net.Addr, h http.Handler) http.Handler {
	if !Loopback(at.String()) {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "" && !Loopback(r.Host) { // HTTP/1.0 names none, and no browser speaks it
			Fail(w, http.StatusForbidden, fmt.Sprintf("this address is for this machine alone, and host %.100q is another; have a proxy name localhost", r.Host))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Loopback tells whether a host, with a port or without, is this machine by its own name for itself.
func Loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

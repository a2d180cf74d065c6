package audit

import (
	"context"
	"net/http"
	"os"
	"os/user"
	"strings"
	"unicode"
)

// Header names the person in a request: chorus's tools send the name of the operating system's user, the console its own. It is a name and no proof:
// where people are not to be trusted, a proxy that knows them sets it.
const Header = "X-Operator"

// mostName bounds a name, in bytes.
const mostName = 100

// Who is the person of a request: the one it names; else the holder of the bearer token that it carries; else the one given.
func Who(r *http.Request, otherwise string) string {
	if name := tidy(r.Header.Get(Header)); name != "" {
		return name
	}
	if r.Header.Get("Authorization") != "" {
		return "holder of the API token"
	}
	return otherwise
}

// Unknown is who acts when nothing tells.
const Unknown = "unknown"

// User is the person at this machine, as the operating system has them.
func User() string {
	if u, err := user.Current(); err == nil && tidy(u.Username) != "" {
		return tidy(u.Username)
	}
	if name := tidy(os.Getenv("USER")); name != "" {
		return name
	}
	return Unknown
}

// tidy keeps what a header can carry and a line can show.
func tidy(name string) string {
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, name))
	if len(name) > mostName {
		name = strings.ToValidUTF8(name[:mostName], "")
	}
	return name
}

type whoKey struct{}

// By notes in a context who acts, for requests that are sent on behalf of another.
func By(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, whoKey{}, who)
}

// Of is who acts in a context; empty when nobody was noted.
func Of(ctx context.Context) string {
	who, _ := ctx.Value(whoKey{}).(string)
	return who
}

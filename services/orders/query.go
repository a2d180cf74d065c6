package orders

import (
	"net/url"
	"strings"

	"chorus/internal/web"
)

// checkQuery finds what is dropped or overlooked in silence otherwise, and would make a list of one customer's orders a list of all: a
// query that cannot be read, a parameter that is there twice, or empty.
func checkQuery(raw string) (status int, fault *web.Fault) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return 400, &web.Fault{Location: "query", Message: "cannot be read: a percent sign stands before two hexadecimal digits, parameters are divided by &"}
	}
	for name, values := range query {
		switch at := "query." + clip(strings.ReplaceAll(name, "\x00", "\uFFFD"), 100); {
		case len(values) > 1:
			return 422, &web.Fault{Location: at, Message: "is there more than once"}
		case values[0] == "" && name != "after" && name != "before": // no cursor is where a walk begins
			return 422, &web.Fault{Location: at, Message: "is empty"}
		}
	}
	return 0, nil
}

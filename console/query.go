package console

import (
	"net/url"
	"strconv"
	"time"

	"chorus/internal/web"
)

// query reads parameters and notes all that is wrong with them.
type query struct {
	values url.Values
	faults []web.Fault
}

func (q *query) fail(name, message string) {
	q.faults = append(q.faults, web.Fault{Location: "query." + name, Message: message})
}

func (q *query) text(name string) string { return q.values.Get(name) }

// number reads a whole number from 0; 0 when there is none.
func (q *query) number(name string) int64 {
	text := q.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		q.fail(name, "want a whole number")
		return 0
	}
	return n
}

// flag reads true or false; nil when there is none.
func (q *query) flag(name string) *bool {
	text := q.text(name)
	if text == "" {
		return nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		q.fail(name, "want true or false")
	}
	return &on
}

// duration reads a duration such as 2s; 0 when there is none.
func (q *query) duration(name string) time.Duration {
	text := q.text(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		q.fail(name, "want a duration such as 2s")
	}
	return d
}

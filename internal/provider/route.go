package provider

import (
	"strconv"
	"strings"

	"github.com/theory/jsonpath"

	"chorus/internal/event"
	"chorus/internal/outside"
)

// route sends a step's calls to a provider when all conditions hold. The first one that matches gets the call.
type route struct {
	to   string
	when []condition
	at   node
	bad  bool // a condition could not be read: nothing can be said about what it takes
}

// condition compares a value with a text. It holds when some value at the path does so; a value that is not there holds for
// no operator, ne included.
type condition struct {
	fact event.Type // where the value is: in a fact, or in the step's own request when empty
	path *jsonpath.Path
	op   string
	want string
	at   node
}

// operators, in lower case.
var operators = []string{"eq", "ne", "gt", "gte", "lt", "lte", "contains", "exists"}

func (c condition) holds(k outside.Known) bool {
	v := k.Request
	if c.fact != "" {
		v = k.Facts[c.fact]
	}
	if v == nil {
		return false
	}
	for _, found := range c.path.Select(sample(v)) {
		if c.op == "exists" {
			return true
		}
		if text, ok := textOf(found); ok && compare(c.op, text, c.want) {
			return true
		}
	}
	return false
}

// compare compares as numbers where both are, and as text otherwise; an order of texts does not exist.
func compare(op, have, want string) bool {
	a, err1 := strconv.ParseFloat(have, 64)
	b, err2 := strconv.ParseFloat(want, 64)
	numbers := err1 == nil && err2 == nil
	switch op {
	case "eq":
		return have == want || numbers && a == b
	case "ne":
		return have != want && !(numbers && a == b)
	case "contains":
		return strings.Contains(have, want)
	case "exists":
		return true
	case "gt":
		return numbers && a > b
	case "gte":
		return numbers && a >= b
	case "lt":
		return numbers && a < b
	case "lte":
		return numbers && a <= b
	}
	return false
}

// same reports whether two conditions look at the same value.
func (c condition) same(d condition) bool {
	return c.fact == d.fact && c.path.String() == d.path.String() && c.path.Query().Singular() != nil
}

// implies reports whether d holds whenever c does; false when that is not sure.
func (c condition) implies(d condition) bool {
	if !c.same(d) {
		return false
	}
	if d.op == "exists" || c.op == d.op && c.want == d.want {
		return true
	}
	a, err1 := strconv.ParseFloat(c.want, 64)
	b, err2 := strconv.ParseFloat(d.want, 64)
	numbers := err1 == nil && err2 == nil
	switch c.op + " " + d.op {
	case "gt gt", "gte gte", "gt gte":
		return numbers && a >= b
	case "gte gt":
		return numbers && a > b
	case "lt lt", "lte lte", "lt lte":
		return numbers && a <= b
	case "lte lt":
		return numbers && a < b
	}
	return c.op == "eq" && compare(d.op, c.want, d.want)
}

// excludes reports whether c and d can never hold together; false when that is not sure.
func (c condition) excludes(d condition) bool {
	if !c.same(d) {
		return false
	}
	if c.op == "eq" {
		return !compare(d.op, c.want, d.want)
	}
	a, err1 := strconv.ParseFloat(c.want, 64)
	b, err2 := strconv.ParseFloat(d.want, 64)
	numbers := err1 == nil && err2 == nil
	switch c.op + " " + d.op {
	case "gt lt", "gt lte", "gte lt":
		return numbers && a >= b
	case "gte lte":
		return numbers && a > b
	}
	return false
}

// covers reports whether every call that r would get goes to the earlier route already.
func (earlier route) covers(r route) bool {
	for _, d := range earlier.when {
		implied := false
		for _, c := range r.when {
			implied = implied || c.implies(d)
		}
		if !implied {
			return false
		}
	}
	return true
}

// Route returns the compiled routes of a step. A step without routes matches nothing.
func (f *File) Route(step event.Step) outside.Route {
	routes := f.routes[step]
	return func(k outside.Known) (string, bool) {
		for _, r := range routes {
			matches := true
			for _, c := range r.when {
				matches = matches && c.holds(k)
			}
			if matches {
				return r.to, true
			}
		}
		return "", false
	}
}

// Providers lists the providers to which a step's routes lead, each once, in the order of the routes.
func (f *File) Providers(step event.Step) []string {
	var names []string
	seen := map[string]bool{}
	for _, r := range f.routes[step] {
		if !seen[r.to] {
			names, seen[r.to] = append(names, r.to), true
		}
	}
	return names
}

// readRoutes reads the routes of every step.
func (r *reader) readRoutes(n node) map[event.Step][]route {
	all := map[event.Step][]route{}
	known := map[string]func(node){}
	for _, shape := range outside.Shapes() {
		known[string(shape.Step)] = func(n node) {
			for _, item := range r.items(n) {
				if one, ok := r.readRoute(item, shape); ok {
					all[shape.Step] = append(all[shape.Step], one)
				}
			}
			r.reachable(all[shape.Step])
		}
	}
	r.fields(n, known)
	for _, shape := range outside.Shapes() {
		if len(all[shape.Step]) == 0 && !shape.Spare {
			r.fault(n, "no route for the step %s: no order could pass it", shape.Step)
		}
	}
	return all
}

func (r *reader) readRoute(n node, shape outside.Shape) (one route, ok bool) {
	one.at = n
	r.fields(n, map[string]func(node){
		"to": func(n node) { one.to, one.at = r.text(n), n },
		"when": func(n node) {
			for _, item := range r.items(n) {
				c, ok := r.readCondition(item, shape)
				if ok {
					one.when = append(one.when, c)
				}
				one.bad = one.bad || !ok
			}
		},
	})
	if one.to == "" {
		r.fault(n, "a route without to: want the name of a provider")
	}
	return one, one.to != ""
}

// readCondition reads {request|fact|answer, path, op, value}.
func (r *reader) readCondition(n node, shape outside.Shape) (c condition, ok bool) {
	c.at = n
	var path, value node
	possible := sample(shape.Request)
	known := map[string]func(node){
		"fact": func(n node) {
			c.fact = event.Type(r.text(n))
			if shape.Facts[c.fact] == nil {
				r.fault(n, "%s does not know the fact %s at the step %s: want one of %s", shape.Owner, c.fact, shape.Step, strings.Join(factNames(shape), ", "))
				possible = nil
				return
			}
			possible = sample(shape.Facts[c.fact])
		},
		"answer": func(n node) {
			step := event.Step(r.text(n))
			c.fact = shape.Answers[step]
			if c.fact == "" {
				r.fault(n, "the step %s has no answer of %q before it", shape.Step, step)
				possible = nil
				return
			}
			possible = sample(shape.Facts[c.fact])
		},
		"path":  func(n node) { path = n },
		"value": func(n node) { value = n },
		"op":    func(n node) { c.op = r.oneOf(n, operators...) },
	}
	r.fields(n, known)
	if path.Node == nil || c.op == "" {
		r.fault(n, "a condition needs path and op")
		return c, false
	}
	if c.path = r.path(path, possible); c.path == nil {
		return c, false
	}
	switch {
	case c.op == "exists" && value.Node != nil:
		r.fault(value, "exists takes no value")
	case c.op == "exists":
	case value.Node == nil:
		r.fault(n, "%s needs a value", c.op)
	default:
		c.want = r.text(value)
		if _, err := strconv.ParseFloat(c.want, 64); err != nil && (c.op[0] == 'g' || c.op[0] == 'l') {
			r.fault(value, "%s compares numbers, and %q is none: the condition can never hold", c.op, c.want)
		}
	}
	return c, true
}

func factNames(shape outside.Shape) []string {
	names := map[string]bool{}
	for t := range shape.Facts {
		names[string(t)] = true
	}
	return sortedKeys(names)
}

// reachable reports routes that no call can take.
func (r *reader) reachable(routes []route) {
	for i, one := range routes {
		for j, c := range one.when {
			for _, d := range one.when[:j] {
				if c.excludes(d) || d.excludes(c) {
					r.fault(c.at, "unreachable route to %s: this condition and one before it can never hold together", one.to)
				}
			}
		}
		for _, earlier := range routes[:i] {
			if !earlier.bad && !one.bad && earlier.covers(one) {
				r.fault(one.at, "unreachable route to %s: the earlier one to %s takes every such call", one.to, earlier.to)
				break
			}
		}
	}
}

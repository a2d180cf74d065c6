package debezium

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"chorus/cdc/connect"
	"chorus/cdc/javaregex"
)

// step is a transform behind the router.
type step func(*message) error

// errFiltered drops a record.
var errFiltered = errors.New("filtered")

var requiredString = &connect.Schema{Type: connect.String}

// Literals of InsertHeader: a text that Connect reads as nothing else, and a
// whole number, whose text is the same by the converters of text.
var (
	plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_ ./@-]*$`)
	plainInt  = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,17})$`)
)

// readStep reads a transform behind the router; false for one that is not
// supported.
func (c *Connector) readStep(o *options, prefix, class string) bool {
	when, ok := o.condition(prefix)
	if !ok {
		return false
	}
	s := c.readTransform(o, prefix, class)
	if s == nil {
		return false
	}
	c.after = append(c.after, func(m *message) error {
		if yes, err := when(m); err != nil || !yes {
			return err
		}
		return s(m)
	})
	return true
}

func (c *Connector) readTransform(o *options, prefix, class string) step {
	switch class {
	case transforms + "InsertHeader":
		name, literal := o.text(prefix+"header", ""), o.text(prefix+"value.literal", "")
		if !c.plainLiteral(literal) {
			return nil // Connect would make another type of it
		}
		return func(m *message) error {
			m.headers = append(slices.Clone(m.headers), typed{name, requiredString, literal})
			return nil
		}
	case transforms + "DropHeaders":
		names := o.list(prefix + "headers")
		return func(m *message) error {
			m.headers = slices.DeleteFunc(slices.Clone(m.headers), func(h typed) bool { return slices.Contains(names, h.name) })
			return nil
		}
	case transforms + "Filter":
		return func(*message) error { return errFiltered }
	case transforms + "RegexRouter":
		return o.regexRouter(prefix)
	}
	return nil
}

func (c *Connector) plainLiteral(text string) bool {
	switch strings.ToLower(text) {
	case "true", "false", "null":
		return false
	}
	_, json := c.header.(connect.JSONConverter)
	return plainText.MatchString(text) || plainInt.MatchString(text) && !json
}

func (o *options) regexRouter(prefix string) step {
	regex, err := javaregex.Compile(o.text(prefix+"regex", ""))
	if err != nil {
		o.fault("%sregex: %w", prefix, err)
		return func(*message) error { return nil }
	}
	by, err := regex.Replacement(o.text(prefix+"replacement", ""))
	if err != nil {
		o.fault("%sreplacement: %w", prefix, err)
	}
	return func(m *message) (err error) {
		ok, err := regex.Matches(m.topic)
		if ok && err == nil {
			m.topic, err = regex.ReplaceFirst(m.topic, by)
		}
		return err
	}
}

// condition reads the predicate of a step; false for one that is not supported.
func (o *options) condition(prefix string) (func(*message) (bool, error), bool) {
	name, negate := o.text(prefix+"predicate", ""), o.boolean(prefix+"negate", false)
	if name == "" {
		return func(*message) (bool, error) { return true, nil }, true
	}
	var is func(*message) (bool, error)
	p := "predicates." + name + "."
	switch o.text(p+"type", "") {
	case topicMatches:
		regex, err := javaregex.Compile(o.text(p+"pattern", ""))
		if err != nil {
			o.fault("%spattern: %w", p, err)
			return nil, false
		}
		is = func(m *message) (bool, error) { return regex.Matches(m.topic) }
	case transforms + "predicates.HasHeaderKey":
		key := o.text(p+"name", "")
		is = func(m *message) (bool, error) {
			return slices.ContainsFunc(m.headers, func(h typed) bool { return h.name == key }), nil
		}
	case isTombstone:
		is = func(m *message) (bool, error) { return m.value == nil, nil }
	default:
		return nil, false
	}
	return func(m *message) (bool, error) {
		yes, err := is(m)
		return yes != negate, err
	}, true
}

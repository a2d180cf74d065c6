package provider

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/theory/jsonpath"
	jsonspec "github.com/theory/jsonpath/spec"
)

// textRule is what a provider takes in a text of a request. The text is adapted for this provider alone; what is stored stays as it is.
type textRule struct {
	path     *jsonpath.Path
	most     int    // characters; 0 is any number
	mostByte int    // bytes in UTF-8; 0 is any number
	only     string // ascii, latin1, bmp or any
	forbid   string // characters that it does not take beside
	instead  string // stands for each of them
}

func (r *reader) readTexts(n node, request any) (all []textRule) {
	for _, item := range r.items(n) {
		t := textRule{only: "any", instead: " "}
		r.fields(item, map[string]func(node){
			"path":      func(n node) { t.path = r.path(n, request) },
			"max":       func(n node) { t.most = r.whole(n, 1, 1_000_000) },
			"max_bytes": func(n node) { t.mostByte = r.whole(n, 4, 1_000_000) },
			"only":      func(n node) { t.only = r.oneOf(n, "ascii", "latin1", "bmp", "any") },
			"forbid":    func(n node) { t.forbid = r.text(n) },
			"instead":   func(n node) { t.instead = r.text(n) },
		})
		if t.path == nil {
			r.fault(item, "a text rule needs a path")
			continue
		}
		if strings.IndexFunc(t.instead, func(c rune) bool { return !t.takes(c) }) >= 0 {
			r.fault(item, "instead %q is forbidden itself", t.instead)
		}
		all = append(all, t)
	}
	return all
}

// takes reports whether the provider takes a character. None takes control characters or line separators: those that were
// seen in names break the requests of some provider each.
func (t textRule) takes(c rune) bool {
	if unicode.IsControl(c) || c == '\u2028' || c == '\u2029' || strings.ContainsRune(t.forbid, c) {
		return false
	}
	switch t.only {
	case "ascii":
		return c < 0x80
	case "latin1":
		return c < 0x100
	case "bmp":
		return c < 0x10000
	}
	return true
}

// adapt makes text acceptable: each run of characters that are not taken becomes instead, and the end is cut off at a
// character's boundary.
func (t textRule) adapt(text string) string {
	var b strings.Builder
	replaced := false
	for _, c := range strings.ToValidUTF8(text, "\uFFFD") {
		if t.takes(c) {
			b.WriteRune(c)
		} else if !replaced {
			b.WriteString(t.instead)
		}
		replaced = !t.takes(c)
	}
	text = b.String()
	if t.most > 0 && utf8.RuneCountInString(text) > t.most {
		text = string([]rune(text)[:t.most])
	}
	if t.mostByte > 0 && len(text) > t.mostByte {
		end := t.mostByte
		for !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	// A mark without the rest of its character, or half of a joined one, is cut off too.
	return strings.TrimRight(text, " \u200d\ufe0f")
}

// adaptAll changes the texts of a document in place.
func adaptAll(rules []textRule, doc any) {
	for _, t := range rules {
		for _, found := range t.path.SelectLocated(doc) {
			if s, ok := found.Node.(string); ok {
				put(doc, found.Path, t.adapt(s))
			}
		}
	}
}

// put sets the value at a place that exists.
func put(doc any, path jsonspec.NormalizedPath, to string) {
	for i, step := range path {
		last := i == len(path)-1
		switch step := step.(type) {
		case jsonspec.Name:
			m := doc.(map[string]any)
			if last {
				m[string(step)] = to
			}
			doc = m[string(step)]
		case jsonspec.Index:
			list := doc.([]any)
			if last {
				list[int(step)] = to
			}
			doc = list[int(step)]
		}
	}
}

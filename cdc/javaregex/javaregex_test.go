package javaregex

import "testing"

// What Java's Matcher.matches and replaceFirst answer.
func TestReplaceFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pattern, replacement, in string
		matches                  bool
		want                     string
	}{
		"named":                       {`(?<routedByValue>.*)`, `outbox.event.${routedByValue}`, "order", true, "outbox.event.order"},
		"numbered":                    {`(\w+)\.(\w+)\.v(\d+)`, `$2-events-$3`, "shop.order.v1", true, "order-events-1"},
		"named and numbered mixed":    {`(?<a>x)(y)(?<c>z)`, `$1$2$3${c}`, "xyz", true, "xyzz"},
		"possessive, look-ahead":      {`(?i)(?!.*test)(?<k>[a-z]++)-.*`, `events.${k}`, "ORDER-1", true, "events.ORDER"},
		"look-ahead refuses":          {`(?i)(?!.*test)(?<k>[a-z]++)-.*`, `events.${k}`, "order-test", false, "order-test"},
		"look-behind":                 {`.*(?<=order)s`, `o`, "orders", true, "o"},
		"back reference":              {`(\w)\1`, `$1`, "aa", true, "a"},
		"named back reference":        {`(?<q>a|b)\k<q>`, `$1`, "bb", true, "b"},
		"possessive does not go back": {`a*+a`, `x`, "aaa", false, "aaa"},
		"atomic group of a class":     {`[ab]{1,2}+b`, `x`, "ab", false, "ab"},
		"first match, not the whole":  {`a|ab`, `x`, "ab", true, "xb"},
		"group that took no part":     {`(a)|(b)`, `[$1$2]`, "b", true, "[b]"},
		"quoted":                      {`\Qa.b\E(\d)`, `$1`, "a.b7", true, "7"},
		"digits are ASCII":            {`\d+`, `n`, "٣", false, "٣"},
		"dot is no line":              {`a.b`, `n`, "a\u2028b", false, "a\u2028b"},
		"dot with s":                  {`(?s)a.b`, `n`, "a\nb", true, "n"},
		"as many digits as groups":    {`(a)`, `$10`, "a", true, "a0"},
		"escaped dollar":              {`(a)`, `\$1\\`, "a", true, `$1\`},
		"posix":                       {`\p{Alpha}+`, `n`, "aZ", true, "n"},
		"no match within":             {`b`, `x`, "aac", false, "aac"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Compile(c.pattern)
			if err != nil {
				t.Fatal(err)
			}
			by, err := r.Replacement(c.replacement)
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := r.Matches(c.in); ok != c.matches || err != nil {
				t.Errorf("matches is %t (%v), want %t", ok, err, c.matches)
			}
			got, err := r.ReplaceFirst(c.in, by)
			if !c.matches {
				return // nobody replaces then
			}
			if got != c.want || err != nil {
				t.Errorf("%q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{`(unclosed`, `a)`, `[a-z&&[^b]]`, `[a[b]]`, `(?U)\w`, `\R`, `(a)\2`, `\p{javaLowerCase}`, `[a`, `a\`} {
		if _, err := Compile(pattern); err == nil {
			t.Errorf("%s is accepted", pattern)
		}
	}
}

func TestReplacementRefuses(t *testing.T) {
	t.Parallel()
	r, err := Compile(`(?<k>a)`)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`${nope}`, `$2`, `$`, `$x`, `a\`, `${k`} {
		if _, err := r.Replacement(text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

package conformance

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func good(id, key string, n int) stated { return stated{Fact: Fact{ID: id, Key: key, N: n}} }

// TestJudge: each sort of fault is found, and nothing is found in what is right.
func TestJudge(t *testing.T) {
	t.Parallel()
	facts := []stated{good("a1", "a", 1), good("a2", "a", 2), good("b1", "b", 1), {Fact: Fact{ID: "a0", Key: "a"}, bad: true}}
	for name, c := range map[string]struct {
		effects []Effect
		want    []string
	}{
		"right, in one order of keys": {[]Effect{{"a1", "a"}, {"a2", "a"}, {"b1", "b"}}, nil},
		"right, in another":           {[]Effect{{"b1", "b"}, {"old", "x"}, {"a1", "a"}, {"a2", "a"}}, nil},
		"lost":                        {[]Effect{{"a1", "a"}, {"a2", "a"}}, []string{"1 facts took no effect: b/1"}},
		"twice":                       {[]Effect{{"a1", "a"}, {"b1", "b"}, {"a2", "a"}, {"b1", "b"}}, []string{"1 facts took effect more than once: b/1 (2 times)"}},
		"out of order":                {[]Effect{{"a2", "a"}, {"a1", "a"}, {"b1", "b"}}, []string{"1 facts took effect after a later one of their key: a/1"}},
		"again, out of order":         {[]Effect{{"a1", "a"}, {"a2", "a"}, {"a1", "a"}, {"b1", "b"}}, []string{"1 facts took effect more than once: a/1 (2 times)"}},
		"poison":                      {[]Effect{{"a1", "a"}, {"a2", "a"}, {"b1", "b"}, {"a0", "a"}}, []string{"1 broken records took effect: a/0"}},
		"strangers":                   {[]Effect{{"a1", "a"}, {"a2", "a"}, {"b1", "b"}, {"", "a"}}, []string{`1 of unknown facts took effect: "" of key "a"`}},
		"another key":                 {[]Effect{{"a1", "a"}, {"a2", "a"}, {"b1", "a"}}, []string{"1 facts took effect under another key: b/1 under a"}},
	} {
		if diff := cmp.Diff(c.want, judge(facts, c.effects, map[string]bool{"old": true})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSubjectReportsAllFaults(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), Subject{Scale: -1})
	const want = "conformance subject: no brokers\nno topic\nnothing to start\nno way to read effects\npartitions, scale and patience are not negative"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

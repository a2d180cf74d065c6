package conformance

import (
	"fmt"
	"slices"
)

// stated is a fact that was written, at its first offset.
type stated struct {
	Fact
	bad bool // a consumer must not give it an effect
}

// shown bounds the faults of one sort that are listed by name; the rest are counted.
const shown = 5

// judge compares what was stated, in the order in which it was written, with the effects in their order: each good fact has one, in the order of its key; nothing else has any.
// elsewhere are ids whose effects belong to others.
func judge(facts []stated, effects []Effect, elsewhere map[string]bool) []string {
	byID := make(map[string]stated, len(facts))
	for _, f := range facts {
		byID[f.ID] = f
	}
	times := map[string]int{}
	got := map[string][]Fact{} // by key, first effects
	found := map[string][]string{}
	for _, e := range effects {
		f, known := byID[e.Fact]
		switch {
		case !known && elsewhere[e.Fact]:
			continue
		case !known:
			found["of unknown facts took effect"] = append(found["of unknown facts took effect"], fmt.Sprintf("%q of key %q", e.Fact, e.Key))
			continue
		case f.bad:
			found["broken records took effect"] = append(found["broken records took effect"], f.name())
			continue
		case e.Key != f.Key:
			found["facts took effect under another key"] = append(found["facts took effect under another key"], f.name()+" under "+e.Key)
		}
		if times[e.Fact]++; times[e.Fact] == 1 {
			got[f.Key] = append(got[f.Key], f.Fact)
		}
	}
	for _, f := range facts {
		switch n := times[f.ID]; {
		case f.bad:
		case n == 0:
			found["facts took no effect"] = append(found["facts took no effect"], f.name())
		case n > 1:
			found["facts took effect more than once"] = append(found["facts took effect more than once"], fmt.Sprintf("%s (%d times)", f.name(), n))
		}
	}
	for _, facts := range got {
		for i := 1; i < len(facts); i++ {
			if facts[i].N < facts[i-1].N {
				found["facts took effect after a later one of their key"] = append(found["facts took effect after a later one of their key"], stated{Fact: facts[i]}.name())
			}
		}
	}
	return list(found)
}

func (f stated) name() string { return fmt.Sprintf("%s/%d", f.Key, f.N) }

// list makes one line of each sort of fault.
func list(found map[string][]string) []string {
	var faults []string
	for what, names := range found {
		slices.Sort(names)
		more := ""
		if len(names) > shown {
			more = ", …"
		}
		faults = append(faults, fmt.Sprintf("%d %s: %s%s", len(names), what, join(names[:min(len(names), shown)]), more))
	}
	slices.Sort(faults)
	return faults
}

func join(names []string) string {
	out := ""
	for i, n := range names {
		if i > 0 {
			out += ", "
		}
		out += n
	}
	return out
}

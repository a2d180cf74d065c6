package tools

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"chorus/internal/event"
)

// shorten cuts a text for a table.
func shorten(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// names writes participants for people.
func names(all []event.Participant) string {
	texts := make([]string, len(all))
	for i, p := range all {
		texts[i] = string(p)
	}
	return strings.Join(texts, ", ")
}

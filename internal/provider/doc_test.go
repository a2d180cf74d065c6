package provider_test

import (
	"os"
	"strings"
	"testing"

	"chorus/internal/event"
	"chorus/internal/outside"
)

// TestDocumentedFile: the file in docs/providers.md is one that a service would take.
func TestDocumentedFile(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/providers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(raw), "```yaml\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatal("no file in the document")
	}
	file := parse(t, text)
	for _, c := range []struct {
		customer string
		total    int64
		want     string
	}{{"ada", 100, "post"}, {"ada", 50_000, "courier"}, {"ada VIP", 1, "courier"}} {
		got, _ := file.Route(event.ShipmentStep)(outside.Known{
			Request: outside.Booking{Customer: c.customer}, Facts: map[event.Type]any{"OrderPlaced": outside.Placed{Total: c.total}},
		})
		if got != c.want {
			t.Errorf("%+v goes to %s", c, got)
		}
	}
}

package codec

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chorus/internal/event"
)

// shelf is a registry that holds texts by id and counts what it is asked.
type shelf struct {
	texts map[int]string
	asked atomic.Int64
	away  atomic.Bool
}

var errAway = errors.New("connection refused")

func (s *shelf) text(_ context.Context, id int) (string, error) {
	s.asked.Add(1)
	if s.away.Load() {
		return "", errAway
	}
	text, ok := s.texts[id]
	if !ok {
		return "", fmt.Errorf("404: %w", ErrUnknownSchema)
	}
	return text, nil
}

// learned returns a codec that has learned those schemas.
func learned(t testing.TB, texts map[int]string) *Codec {
	t.Helper()
	c := Embedded()
	c.LearnFrom((&shelf{texts: texts}).text)
	for id := range texts {
		if err := c.Learn(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func TestLearnAsksOnceForManyRecords(t *testing.T) {
	t.Parallel()
	s := &shelf{texts: map[int]string{900: schemaOf(t, "OrderFailed")}}
	c := Embedded()
	c.LearnFrom(s.text)
	value := framed(t, 900, s.texts[900], map[string]any{"reason": "r"})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 125 {
				f, err := c.Decode("OrderFailed", value)
				if errors.Is(err, ErrUnknownSchema) {
					if err := c.Learn(t.Context(), 900); err != nil {
						t.Error(err)
					}
					f, err = c.Decode("OrderFailed", value)
				}
				if f != (event.OrderFailed{Reason: "r"}) {
					t.Error(f, err)
				}
			}
		})
	}
	wg.Wait()
	if n := s.asked.Load(); n != 1 {
		t.Errorf("1000 records asked the registry %d times", n)
	}
}

func TestSCH12RegistryAwayIsNotRemembered(t *testing.T) {
	t.Parallel()
	s := &shelf{texts: map[int]string{900: schemaOf(t, "OrderFailed")}}
	c := Embedded()
	c.LearnFrom(s.text)
	s.away.Store(true)
	var final *Error
	if err := c.Learn(t.Context(), 900); !errors.Is(err, errAway) || errors.As(err, &final) {
		t.Errorf("while the registry is away: %v", err)
	}
	if _, err := c.Decode("OrderFailed", unhex("00000000050272")); err != nil {
		t.Errorf("what is known needs no registry: %v", err)
	}
	s.away.Store(false)
	if err := c.Learn(t.Context(), 900); err != nil {
		t.Errorf("when it is back: %v", err)
	}
}

func TestSCH06UnknownIDIsRememberedForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{texts: map[int]string{7000: `{"type":"record","name":"other.Thing","fields":[]}`, 7001: `{`}}
		c := Embedded()
		c.LearnFrom(s.text)
		for id, want := range map[int]string{2147483647: "the registry knows no schema id 2147483647", 7000: "other.Thing", 7001: "cannot be used"} {
			s.asked.Store(0)
			for range 1000 {
				wantError(t, "unknown", c.Learn(t.Context(), id), ErrUnknownSchema, want)
			}
			if n := s.asked.Load(); n != 1 {
				t.Errorf("id %d was asked for %d times", id, n)
			}
		}
		time.Sleep(forgetAfter)
		s.texts[2147483647] = schemaOf(t, "OrderFailed")
		if err := c.Learn(t.Context(), 2147483647); err != nil {
			t.Errorf("after it was registered: %v", err)
		}
	})
}

func TestLearnHeedsItsContext(t *testing.T) {
	t.Parallel()
	c := Embedded()
	wantError(t, "no registry", c.Learn(t.Context(), 900), ErrUnknownSchema, "no registry to ask")
	asked, release := make(chan struct{}), make(chan struct{})
	c.LearnFrom(func(context.Context, int) (string, error) { close(asked); <-release; return "", ErrUnknownSchema })
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Learn(t.Context(), 901) })
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Learn(ctx, 902); !errors.Is(err, context.Canceled) {
		t.Errorf("behind a question that hangs: %v", err)
	}
	close(release)
	wg.Wait()
}

func TestNewRefusesIDsThatNobodyCouldRead(t *testing.T) {
	t.Parallel()
	ids := func(change func(map[event.Type]int)) map[event.Type]int {
		m := map[event.Type]int{}
		for i, f := range event.Catalogue() {
			m[f.Type()] = 100_000 + i
		}
		change(m)
		return m
	}
	c, err := New(ids(func(map[event.Type]int) {}), Avro)
	if err != nil {
		t.Fatal(err)
	}
	value, err := c.Encode(event.OrderPlaced{Shipping: event.Domestic, Deadline: deadline})
	if err != nil || value[2] != 1 || value[3] != 0x86 || value[4] != 0xa0 {
		t.Errorf("id 100000: % x, %v", value, err)
	}
	for what, m := range map[string]map[event.Type]int{
		"missing":  ids(func(m map[event.Type]int) { delete(m, "UndoStuck") }),
		"zero":     ids(func(m map[event.Type]int) { m["UndoStuck"] = 0 }),
		"negative": ids(func(m map[event.Type]int) { m["UndoStuck"] = -1 }),
		"twice":    ids(func(m map[event.Type]int) { m["UndoStuck"] = m["OrderPlaced"] }),
		"33 bits":  ids(func(m map[event.Type]int) { m["UndoStuck"] = 1 << 31 }),
		"none":     {},
	} {
		if _, err := New(m, Avro); err == nil {
			t.Errorf("%s id was taken", what)
		}
	}
	if _, err := New(nil, "xml"); err == nil {
		t.Error("format xml was taken")
	}
}

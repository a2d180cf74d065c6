package tools

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"iter"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"chorus/internal/event"
	"chorus/internal/retail"
)

// invented makes up orders.
type invented struct {
	run   string // keeps the keys of one run apart from another's
	count int
	rate  float64
	mix   []string // outcomes, each as often as its weight
}

// outcomes are what --customers knows. Most are forced by a word in the customer's name that the simulated providers know.
var outcomes = []string{"ok", "review", "fraud", "declined", "undeliverable", "missing", "sold-out", "cancel"}

const inventedProducts = 20

func newInvented(count int, rate float64, weights map[string]int) (*invented, error) {
	var run [4]byte
	rand.Read(run[:])
	s := &invented{run: hex.EncodeToString(run[:]), count: count, rate: rate}
	for _, name := range sortedKeys(weights) {
		if !slices.Contains(outcomes, name) || weights[name] < 0 {
			return nil, fmt.Errorf("--customers %s=%d: want weights from 0 of %s", name, weights[name], strings.Join(outcomes, ", "))
		}
		for range weights[name] {
			s.mix = append(s.mix, name)
		}
	}
	if len(s.mix) == 0 {
		return nil, fmt.Errorf("--customers: all weights are 0")
	}
	return s, nil
}

func (s *invented) goods() []goods {
	list := []goods{
		{"load-missing", "Nowhere to be found", "3.50", int64(s.count)}, // on our shelf, and not in the warehouse
		{"load-sold-out", "Sold out", "3.50", 0},
	}
	for i := range inventedProducts {
		list = append(list, goods{fmt.Sprintf("load-%02d", i+1), fmt.Sprintf("Load product %d", i+1), fmt.Sprintf("%d.%02d", 1+i, 7*i%100), 3 * int64(s.count)})
	}
	return list
}

func (s *invented) total() int { return s.count }

func (s *invented) refused() map[retail.Reason]int { return nil }

// jobs are the same for the same flags, apart from their keys.
func (s *invented) jobs() iter.Seq2[job, error] {
	dice := mathrand.New(mathrand.NewPCG(1, 2))
	return func(yield func(job, error) bool) {
		for i := range s.count {
			j := s.job(i, s.mix[dice.IntN(len(s.mix))], dice)
			if s.rate > 0 {
				j.after = time.Duration(float64(i) / s.rate * float64(time.Second))
			}
			if !yield(j, nil) {
				return
			}
			if strings.Contains(j.cart.Customer, "-cancel-") && !yield(job{name: j.name, cancel: true}, nil) {
				return
			}
		}
	}
}

func (s *invented) job(i int, outcome string, dice *mathrand.Rand) job {
	name := fmt.Sprintf("load-%s-%d", s.run, i+1)
	j := job{name: name, key: name, cart: cart{
		Customer: fmt.Sprintf("load-%s-%d", outcome, i%1000), Shipping: string(event.Domestic),
	}}
	if dice.IntN(5) == 0 {
		j.cart.Shipping = string(event.International)
	}
	for range 1 + dice.IntN(3) {
		j.cart.Items = append(j.cart.Items, cartItem{fmt.Sprintf("load-%02d", 1+dice.IntN(inventedProducts)), 1})
	}
	switch outcome {
	case "missing", "sold-out":
		j.cart.Items = append(j.cart.Items, cartItem{"load-" + outcome, 1})
	}
	return j
}

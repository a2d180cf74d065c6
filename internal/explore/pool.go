package explore

import "fmt"

// pool gives equal values one small number, so that a world is a handful of numbers.
type pool[T comparable] struct {
	what string
	ids  map[T]uint16
	all  []T
}

func newPool[T comparable](what string) *pool[T] {
	return &pool[T]{what: what, ids: map[T]uint16{}}
}

// id returns the number of v. More values than numbers is a mistake in the model, never cut off in silence.
func (p *pool[T]) id(v T) uint16 {
	if id, ok := p.ids[v]; ok {
		return id
	}
	if len(p.all) > 0xffff {
		panic(fmt.Sprintf("explore: more than %d different %s", len(p.all), p.what))
	}
	id := uint16(len(p.all))
	p.ids[v] = id
	p.all = append(p.all, v)
	return id
}

package explore

// store keeps every world that was reached, in the order in which it was, with the one it was reached from. It takes
// about 36 bytes a world, so that tens of millions fit.
type store struct {
	chunks [][]node
	count  int
	slots  []uint64 // open addressing: half of the hash, and the number of the world + 1; 0 for free
}

type node struct {
	world  world
	parent uint32
}

const chunk = 1 << 16

func newStore() *store { return &store{slots: make([]uint64, 1<<16)} }

func (s *store) at(i int) *node { return &s.chunks[i/chunk][i%chunk] }

// add keeps w unless it is known.
func (s *store) add(w world, parent int) {
	if s.count >= len(s.slots)/4*3 {
		s.grow()
	}
	slot, tag := s.slot(w)
	if s.slots[slot] != 0 {
		return
	}
	if s.count%chunk == 0 {
		s.chunks = append(s.chunks, make([]node, 0, chunk))
	}
	last := &s.chunks[len(s.chunks)-1]
	*last = append(*last, node{w, uint32(parent)})
	s.count++
	s.slots[slot] = tag | uint64(s.count)
}

// slot finds the place of w, where it stands or where it would, and the half of its hash that is kept there: other
// worlds are told apart without being looked at.
func (s *store) slot(w world) (slot int, tag uint64) {
	const half = 0xffffffff
	last := len(s.slots) - 1
	h := w.hash()
	tag = h &^ half
	for i := int(h) & last; ; i = (i + 1) & last {
		found := s.slots[i]
		if found == 0 || found&^half == tag && s.at(int(found&half)-1).world == w {
			return i, tag
		}
	}
}

func (s *store) grow() {
	s.slots = make([]uint64, 2*len(s.slots))
	for i := 0; i < s.count; i++ {
		slot, tag := s.slot(s.at(i).world)
		s.slots[slot] = tag | uint64(i+1)
	}
}

// hash mixes all numbers of the world.
func (w world) hash() uint64 {
	var h uint64
	for a := range w.locals {
		h = (h ^ uint64(w.locals[a]) ^ uint64(w.sides[a])<<16) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

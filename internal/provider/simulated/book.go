package simulated

import (
	"bytes"
	"net/http"
	"time"
)

// An operation is one kind of call.
type operation string

const (
	do     operation = "do"
	undo   operation = "undo"
	lookup operation = "lookup"
	cancel operation = "cancel"
	all    operation = "all" // in rules of misbehaviour only
)

// A command is one call, understood. The outcome of every call goes into the log, so a call that was refused before it
// reached the books is a command too, with its answer in rejected.
type command struct {
	op          operation
	key         string // do, lookup, cancel: the effect's; undo: the undo's own
	id          string // undo: the effect's reference
	order       int64  // as far as the caller told
	proposal    proposal
	fingerprint []byte
	reason      string
	decline     bool    // by a rule: a new effect, an undo or a cancel is refused
	fault       string  // what the caller sees of it, for the log
	rule        int64   // whose count-down this call moves; 0 is none
	rejected    *answer // set: nothing is looked at, nothing changes
}

// A book is the part of a provider's state that a batch of commands touches. Its rules are plain functions of what is
// in it; loading and saving it is the store's.
type book struct {
	provider  *provider
	effects   map[string]*effect // by key
	byID      map[string]*effect
	byUndoKey map[string]*effect
	accounts  map[accountKey]*account
}

func newBook(p *provider) *book {
	return &book{
		provider: p, effects: map[string]*effect{}, byID: map[string]*effect{},
		byUndoKey: map[string]*effect{}, accounts: map[accountKey]*account{},
	}
}

func (b *book) add(e *effect) {
	b.effects[e.Key] = e
	if e.ID != "" {
		b.byID[e.ID] = e
	}
	if e.UndoKey != "" {
		b.byUndoKey[e.UndoKey] = e
	}
}

// apply carries out one command and returns the answer and the order it was about, 0 when that is not known.
func (b *book) apply(c *command, now time.Time) (answer, int64) {
	if c.rejected != nil {
		return *c.rejected, c.order
	}
	var ans answer
	var e *effect
	switch c.op {
	case do:
		ans, e = b.do(c, now)
	case undo:
		ans, e = b.undo(c, now)
	case cancel:
		ans, e = b.cancel(c, now)
	case lookup:
		ans, e = b.lookup(c)
	}
	if e != nil && e.Order != 0 {
		return ans, e.Order
	}
	return ans, c.order
}

func (b *book) do(c *command, now time.Time) (answer, *effect) {
	if e := b.effects[c.key]; e != nil {
		return b.repeat(c, e), e
	}
	e := &effect{
		proposal: c.proposal, Key: c.key, State: active, Fingerprint: c.fingerprint, CreatedAt: now, changed: true,
	}
	if e.Refusal.Status == 0 && c.decline {
		e.Refusal = b.provider.declined()
	}
	if e.Refusal.Status == 0 && !b.take(e) {
		e.Refusal = insufficientFunds
	}
	if e.Refusal.Status != 0 {
		e.State = refused
	} else {
		e.ID = b.provider.reference(c.key)
	}
	b.add(e)
	return b.repeat(c, e), e
}

// repeat is the answer to a request whose key is in the book. A tombstone comes first: whoever cancelled the key counts
// on nothing more coming of it.
func (b *book) repeat(c *command, e *effect) answer {
	switch {
	case e.Tombstone:
		return refuse(http.StatusConflict, "cancelled", "this key was cancelled")
	case !bytes.Equal(e.Fingerprint, c.fingerprint):
		return keyReused
	case e.ID == "":
		return refuse(e.Refusal.Status, e.Refusal.Code, e.Refusal.Message)
	}
	return answer{http.StatusCreated, b.provider.applied(e)}
}

var keyReused = refuse(http.StatusUnprocessableEntity, "key_reused", "this key was used for another request")

func (b *book) undo(c *command, now time.Time) (answer, *effect) {
	e := b.byID[c.id]
	if other := b.byUndoKey[c.key]; other != nil {
		if other != e || !bytes.Equal(other.UndoFingerprint, c.fingerprint) {
			return keyReused, e
		}
		return b.undone(e), e
	}
	switch {
	case e == nil:
		return refuse(http.StatusNotFound, "unknown_id", "no effect has this id"), nil
	case e.State != active:
		return refuse(http.StatusConflict, "already_undone", "this effect is undone already"), e
	case c.decline:
		return undoRefused, e
	}
	b.takeBack(e, c.reason, now)
	e.UndoKey, e.UndoFingerprint = c.key, c.fingerprint
	b.add(e)
	return b.undone(e), e
}

// undoRefused is not a 409, which callers may take for "already undone". It is not recorded: the next attempt may succeed.
var undoRefused = refuse(http.StatusForbidden, "undo_refused", "the provider does not take this back")

func (b *book) undone(e *effect) answer {
	return answer{http.StatusOK, undoneView{
		ID: e.ID, Order: e.Order, State: undone, Amount: e.Amount, Currency: e.Currency, Reason: e.UndoReason,
	}}
}

// cancel leaves a tombstone in any case, so that a request still on its way cannot apply anything.
func (b *book) cancel(c *command, now time.Time) (answer, *effect) {
	e := b.effects[c.key]
	switch {
	case e != nil && e.Tombstone:
		return answer{http.StatusOK, b.provider.view(e)}, e
	case c.decline:
		return undoRefused, e
	case e == nil:
		e = &effect{proposal: proposal{Order: c.order}, Key: c.key, State: cancelled, UndoReason: c.reason, CreatedAt: now}
		b.add(e)
	case e.State == active:
		b.takeBack(e, c.reason, now)
	}
	e.Tombstone, e.changed = true, true
	return answer{http.StatusOK, b.provider.view(e)}, e
}

func (b *book) lookup(c *command) (answer, *effect) {
	e := b.effects[c.key]
	if e == nil {
		return refuse(http.StatusNotFound, "unknown_key", "this key was never seen"), nil
	}
	return answer{http.StatusOK, b.provider.view(e)}, e
}

// take moves the money of a charge, or says that there is not enough.
func (b *book) take(e *effect) bool {
	if !b.provider.pays {
		return true
	}
	k := accountKey{e.Customer, e.Currency}
	a := b.accounts[k]
	if a == nil {
		a = &account{accountKey: k, Funded: openingBalance, Balance: openingBalance}
		b.accounts[k] = a
	}
	if a.Balance < e.Amount {
		return false
	}
	a.Balance, a.changed = a.Balance-e.Amount, true
	return true
}

func (b *book) takeBack(e *effect, reason string, now time.Time) {
	e.State, e.UndoReason, e.UndoneAt, e.changed = undone, reason, &now, true
	if a := b.accounts[accountKey{e.Customer, e.Currency}]; a != nil {
		a.Balance, a.changed = a.Balance+e.Amount, true
	}
}

// declined is the refusal that a rule forces.
func (p *provider) declined() refusal {
	if p.pays {
		return refusal{http.StatusPaymentRequired, "declined", "the processor declines this charge"}
	}
	return refusal{http.StatusConflict, "declined", "the " + p.name + " declines this request"}
}

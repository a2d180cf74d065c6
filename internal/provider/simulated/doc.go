// Package simulated is the outside world of the shop, as one process of its own: a warehouse, a risk bureau, two
// carriers and two payment processors. They keep their state in the database "providers", remember every idempotency
// key for good, answer look-ups and cancels by key, and misbehave on demand while they run.
//
// # Routes
//
// Each provider has the same shape under its name. Bodies and answers are JSON.
//
//	POST /{provider}/{effects}                          apply once for a key (header Idempotency-Key): 201 {"id"}
//	GET  /{provider}/{effects}/by-key/{key}             200 with the effect, 404 when the key was never seen
//	POST /{provider}/{effects}/by-key/{key}/cancel      undo what the key did, and refuse the key from now on: 200
//	POST /{provider}/{effects}/{id}/undo                release, cancel or refund (header Idempotency-Key): 200
//	PUT  /{provider}/behaviour                          set or clear one rule of misbehaviour
//	GET, DELETE /{provider}/behaviour                   the rules in force; clear them all
//	GET, PUT /{provider}/balances/{customer}            payment processors only
//	GET  /ledger?order=&after=&limit=, /ledger/summary  what every provider holds, to compare with
//	GET  /requests?order=&provider=&operation=&after=&limit=  the log of calls
//	GET  /livez, /readyz
//
// The providers and their effects:
//
//	warehouse              reservations  {order, lines: [{sku, quantity}]}
//	bureau                 screenings    {order, customer, amount, currency, country, shipping}
//	carrier-domestic       shipments     {order, customer, units}
//	carrier-international  shipments     {order, customer, units}
//	pay-standard           charges       {order, customer, amount, currency, lines: [{name, quantity, amount}]}
//	pay-highvalue          charges       {order, customer, amount, currency, lines: [{name, quantity, amount}]}
//	shipping-confirmation  messages      {order, status, text}; review-request and status-update, too
//
// Amounts are integers in the currency's minor unit. A screening holds nothing, so its state says nothing about whether
// an order is undone.
//
// # Answers
//
// The same key with the same request gets the same answer, whatever has become of the effect since; the same key with
// another request gets 422 key_reused. A refusal for business reasons (402 or 409) is an answer like any other: it is
// recorded and replayed. After a cancel by key every later POST with it gets 409 cancelled. A second undo gets 409
// already_undone. Bad input gets 400 with the fields at fault and records nothing.
//
// Some inputs force an answer, so that a script needs no settings: see [Names] and the score of the bureau.
//
// # What a crash leaves
//
// An effect, its key, the balance it moves, the line in the log of calls and the count-down of a rule commit in one
// transaction, before the answer is sent. A process killed before the commit has done nothing; one killed after it
// has done all, and the caller, who got no answer, finds out by key. Rules without a count survive as they were set. A
// count-limited rule that was applied, but whose call had not committed, applies once more after the restart.
//
// # One process, several writers
//
// Each provider has one writer that commits the calls waiting for it together ([lane]), so throughput does not depend on
// how many customers there are or how slow a commit is. Rows are locked and keys are unique all the same, so a second
// process on the same database (a restart that overlaps) cannot apply anything twice. Rules are read at start: of two
// overlapping processes only the one that was told knows a new rule.
package simulated

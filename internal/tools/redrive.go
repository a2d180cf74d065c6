package tools

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"golang.org/x/time/rate"

	"chorus/internal/audit"
	"chorus/internal/event"
	"chorus/internal/inspect"
)

// LettersPreviewCmd says what a redrive would come to.
type LettersPreviewCmd struct {
	Cluster
	Output
	LetterChoice
	Rate float64 `help:"Letters a second, at most." default:"50"`
}

// Help is shown by --help.
func (*LettersPreviewCmd) Help() string {
	return `Has each letter decided by its service in the order's present state, and everything rolled back: nothing changes. Letters of one order are each judged by the state of now, as if those before them were not redriven.`
}

// Run previews and counts.
func (c *LettersPreviewCmd) Run(ctx context.Context, _ *slog.Logger) error {
	run := letterRun{Cluster: c.Cluster, Output: c.Output, choice: c.LetterChoice, rate: c.Rate, bulk: inspect.Bulk{Preview: true}}
	return run.all(ctx)
}

// LettersRedriveCmd has dead letters handled again.
type LettersRedriveCmd struct {
	Cluster
	Output
	LetterChoice
	Rate  float64 `help:"Letters a second, at most." default:"50"`
	Force bool    `help:"Redrive what is too old for the inbox to know whether it was handled."`
	Note  string  `help:"Why; it is kept in the audit." placeholder:"TEXT"`
}

// Help is shown by --help.
func (*LettersRedriveCmd) Help() string {
	return `Hands the records to their service's door once more. Each takes effect once, also if it is redriven twice or was delivered again meanwhile. One that still cannot be handled stays open with the new reason; one that is too old, or was handled in the meantime, is refused with the reason. Look at chorus dead-letters preview first.

  chorus dead-letters redrive billing/12 --note 'schema 31 is registered'
  chorus dead-letters redrive --all --service billing --reason unknown_schema --since 2h --rate 20

The facts of one order in one topic are handled in their order: where one stays dead, the later ones wait for it. A run that is killed is begun again with the same words: what is done is not open any more.

Exit code: 1 when one of them is not redriven.`
}

// Run redrives.
func (c *LettersRedriveCmd) Run(ctx context.Context, _ *slog.Logger) error {
	run := letterRun{
		Cluster: c.Cluster, Output: c.Output, choice: c.LetterChoice, rate: c.Rate,
		bulk: inspect.Bulk{Force: c.Force, Reason: c.Note},
	}
	return run.all(ctx)
}

// letterRun goes through dead letters of one or more services.
type letterRun struct {
	Cluster
	Output
	choice LetterChoice
	rate   float64
	bulk   inspect.Bulk

	done    atomic.Int64
	results []letterResult
}

type letterResult struct {
	Letter string `json:"letter"`
	inspect.Outcome
}

func (r *letterRun) all(ctx context.Context) error {
	if r.rate <= 0 {
		return fmt.Errorf("--rate %g: want a number above 0", r.rate)
	}
	ctx = audit.By(ctx, audit.User())
	all, err := r.addresses(ctx)
	if err != nil {
		return err
	}
	letters, err := r.choice.find(ctx, all)
	if err != nil {
		return err
	}
	stop := r.progress(len(letters))
	err = r.run(ctx, all, letters)
	stop()
	if shown := r.show(); shown != nil {
		return shown
	}
	if err != nil {
		return fmt.Errorf("after %d of %d dead letters, the same command goes on: %w", len(r.results), len(letters), err)
	}
	left := 0
	for _, res := range r.results {
		if slices.Contains([]string{inspect.StaysDead, inspect.Refused, inspect.Waits}, res.Verdict) {
			left++
		}
	}
	if left > 0 && !r.bulk.Preview {
		return ExitError{1, fmt.Errorf("%d of %d are not redriven", left, len(letters))}
	}
	return nil
}

// run takes the letters of each service in turn; they stand together.
func (r *letterRun) run(ctx context.Context, all addresses, letters []inspect.Letter) error {
	limit := rate.NewLimiter(rate.Limit(r.rate), 1)
	r.bulk.Pace = limit.Wait
	for len(letters) > 0 {
		who := letters[0].Participant
		n := slices.IndexFunc(letters, func(l inspect.Letter) bool { return l.Participant != who })
		if n < 0 {
			n = len(letters)
		}
		var err error
		if r.bulk.Client, err = all.participant(who); err != nil {
			return err
		}
		if err := r.bulk.Run(ctx, letters[:n], r.tell); err != nil {
			return fmt.Errorf("%s: %w", who, err)
		}
		letters = letters[n:]
	}
	return nil
}

func (r *letterRun) tell(o inspect.Outcome) {
	r.results = append(r.results, letterResult{Letter{o.Letter.Participant, o.Letter.ID}.String(), o})
	r.done.Add(1)
}

// progress says every two seconds how far a long run is.
func (r *letterRun) progress(total int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var last int64
		every(ctx, lineEvery, func() {
			if n := r.done.Load(); n != last && ctx.Err() == nil {
				last = n
				r.remark("%d of %d", n, total)
			}
		})
	}()
	return func() {
		cancel()
		<-ended
	}
}

// mostLines is how many letters are shown one by one; of more the counts are.
const mostLines = 50

func (r *letterRun) show() error {
	if r.JSON {
		return r.printJSON(append([]letterResult{}, r.results...))
	}
	if len(r.results) == 0 {
		r.printf("no dead letters to look at\n")
		return nil
	}
	if len(r.results) <= mostLines {
		for _, res := range r.results {
			r.printf("%s  %s  %s\n", res.Letter, res.Verdict, clean(res.Why))
		}
	}
	type group struct {
		who     event.Participant
		verdict string
	}
	counts, example := map[group]int{}, map[group]string{}
	var order []group
	for _, res := range r.results {
		g := group{res.Outcome.Letter.Participant, res.Verdict}
		if counts[g]++; counts[g] == 1 {
			order = append(order, g)
			example[g] = res.Letter + ": " + res.Why
		}
	}
	would := ""
	if r.bulk.Preview {
		would = "would be "
	}
	for _, g := range order {
		r.printf("%s: %d %s%s, as %s\n", g.who, counts[g], would, g.verdict, clean(shorten(example[g], 120)))
	}
	return nil
}

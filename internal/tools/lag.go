package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"chorus/cdc"
	"chorus/internal/broker"
	"chorus/internal/choreography"
	"chorus/internal/event"
	"chorus/internal/inspect"
)

// LagCmd shows how far everybody is behind.
type LagCmd struct {
	Cluster
	Output
}

// Help is shown by --help.
func (*LagCmd) Help() string {
	return `For each consumer group and partition: what it has committed against the end, seen from outside. A partition without a commit says "no commit" and counts all that is there as behind; lag is never negative. A group without members is shown with its lag: nobody works on it.

Below, the calls that wait for providers, the redeliveries absorbed and the open dead letters of each service, and how far cdc is behind each outbox. Who does not answer within three seconds is named in its place.

Exit code: 1 when Kafka does not answer.`
}

// lagView is everything that may be behind.
type lagView struct {
	Groups   []groupLag   `json:"groups"`
	Kafka    string       `json:"kafka_error,omitempty"` // why groups are missing
	Services []serviceLag `json:"services"`
	CDC      cdcLag       `json:"cdc"`
}

type groupLag struct {
	Group      string         `json:"group"`
	State      string         `json:"state"`
	Members    int            `json:"members"`
	Behind     int64          `json:"behind"`
	Partitions []partitionLag `json:"partitions"`
}

type partitionLag struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed *int64 `json:"committed"` // null: no commit
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
	Behind    int64  `json:"behind"`
}

type serviceLag struct {
	inspect.Figures
	Error string `json:"error,omitempty"` // it did not answer
}

type cdcLag struct {
	Ready   bool         `json:"ready"`
	Sources []cdc.Status `json:"sources,omitempty"`
	Error   string       `json:"error,omitempty"`
}

// Run looks once.
func (c *LagCmd) Run(ctx context.Context, _ *slog.Logger) error {
	all, err := c.addresses(ctx)
	if err != nil {
		return err
	}
	var view lagView
	var kafka error
	var wg sync.WaitGroup
	wg.Go(func() { view.Groups, kafka = groups(ctx, all) })
	wg.Go(func() { view.Services = services(ctx, all) })
	wg.Go(func() { view.CDC = publisher(ctx, all) })
	wg.Wait()
	if kafka != nil {
		view.Kafka = silence(kafka)
		kafka = ExitError{1, fmt.Errorf("the Kafka brokers do not answer: %s", view.Kafka)}
	}
	if c.JSON {
		return errors.Join(c.printJSON(view), kafka)
	}
	c.show(view)
	return kafka
}

// lagWithin bounds each question. Of who does not answer, the silence is the news.
const lagWithin = 3 * time.Second

// groups asks Kafka about every group that ought to be there, also when it is not.
func groups(ctx context.Context, all addresses) ([]groupLag, error) {
	brokers, err := all.brokers()
	if err != nil {
		return nil, err
	}
	client, err := broker.NewClient(brokers)
	if err != nil {
		return nil, fmt.Errorf("make a Kafka client: %w", err)
	}
	defer client.Close()
	found := []groupLag{}
	ask := func(group string, topics []string) error {
		ctx, cancel := context.WithTimeout(ctx, lagWithin)
		defer cancel()
		state, err := broker.GroupLag(ctx, client, group, topics)
		if err != nil {
			return err
		}
		found = append(found, lagOf(state))
		return nil
	}
	for _, who := range holders() {
		if err := ask(string(who), topicsRead(who)); err != nil {
			return found, err
		}
	}
	return found, nil
}

func lagOf(state broker.GroupState) groupLag {
	g := groupLag{Group: state.Group, State: state.State, Members: state.Members, Partitions: []partitionLag{}}
	for _, l := range state.Lags {
		p := partitionLag{Topic: l.Topic, Partition: l.Partition, Start: l.Start, End: l.End, Behind: l.Behind}
		if !l.NoCommit {
			p.Committed = &l.Committed
		}
		g.Behind += l.Behind
		g.Partitions = append(g.Partitions, p)
	}
	return g
}

// services asks every participant at the same time; one that does not answer says so in its place.
func services(ctx context.Context, all addresses) []serviceLag {
	ctx, cancel := context.WithTimeout(ctx, lagWithin)
	defer cancel()
	who := choreography.Participants()
	found := make([]serviceLag, len(who))
	var wg sync.WaitGroup
	for i, p := range who {
		wg.Go(func() { found[i] = service(ctx, all, p) })
	}
	wg.Wait()
	return found
}

func service(ctx context.Context, all addresses, who event.Participant) serviceLag {
	client, err := all.participant(who)
	if err == nil {
		var f inspect.Figures
		if f, err = client.Figures(ctx); err == nil {
			return serviceLag{Figures: f}
		}
	}
	return serviceLag{Figures: inspect.Figures{Participant: who}, Error: silence(err)}
}

// publisher asks cdc. Its answer has the same form whether it is ready or not.
func publisher(ctx context.Context, all addresses) (l cdcLag) {
	ctx, cancel := context.WithTimeout(ctx, lagWithin)
	defer cancel()
	base, err := all.url("cdc")
	if err != nil {
		return cdcLag{Error: err.Error()}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return cdcLag{Error: err.Error()}
	}
	resp, err := newClient(base).http.Do(req)
	if err != nil {
		return cdcLag{Error: silence(err)}
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&l); err != nil {
		return cdcLag{Error: "read the answer of cdc: " + err.Error()}
	}
	return l
}

func (c *LagCmd) show(v lagView) {
	if v.Kafka != "" {
		c.printf("Kafka does not answer: %s\n\n", clean(v.Kafka))
	}
	c.table(func(row func(...string)) {
		row("GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "BEHIND")
		for _, g := range v.Groups {
			for _, p := range g.Partitions {
				committed := "no commit"
				if p.Committed != nil {
					committed = strconv.FormatInt(*p.Committed, 10)
				}
				row(g.Group, p.Topic, strconv.Itoa(int(p.Partition)), committed, strconv.FormatInt(p.End, 10), strconv.FormatInt(p.Behind, 10))
			}
		}
	})
	c.printf("\n")
	c.table(func(row func(...string)) {
		row("GROUP", "MEMBERS", "STATE", "BEHIND")
		for _, g := range v.Groups {
			state := g.State
			if g.Members == 0 && g.Behind > 0 {
				state += " (nobody works on it)"
			}
			row(g.Group, strconv.Itoa(g.Members), state, strconv.FormatInt(g.Behind, 10))
		}
	})
	c.printf("\n")
	c.showServices(v.Services)
	c.printf("\n")
	c.showCDC(v.CDC)
}

func (c *LagCmd) showServices(services []serviceLag) {
	c.table(func(row func(...string)) {
		row("SERVICE", "PROVIDER", "CALLS OPEN", "DUE", "OLDEST DUE", "PROBLEMS", "ABSORBED", "DEAD LETTERS")
		for _, s := range services {
			if s.Error != "" {
				row(string(s.Participant), "does not answer: "+s.Error)
				continue
			}
			absorbed, dead := strconv.FormatInt(s.Duplicates, 10), strconv.FormatInt(s.DeadLetters, 10)
			if len(s.Backlog) == 0 {
				row(string(s.Participant), "-", "0", "0", "-", "0", absorbed, dead)
			}
			for _, b := range s.Backlog {
				row(string(s.Participant), b.Provider, strconv.Itoa(b.Open), strconv.Itoa(b.Due),
					b.OldestDue.Round(time.Millisecond).String(), strconv.Itoa(b.Problems), absorbed, dead)
			}
		}
	})
}

func (c *LagCmd) showCDC(l cdcLag) {
	if l.Error != "" {
		c.printf("cdc does not answer: %s\n", clean(l.Error))
		return
	}
	c.table(func(row func(...string)) {
		row("CDC SOURCE", "STATE", "SLOT LAG", "UNACKNOWLEDGED", "REASON")
		for _, s := range l.Sources {
			lag := "unknown"
			if s.SlotLagBytes != nil {
				lag = strconv.FormatInt(*s.SlotLagBytes, 10) + " bytes"
			}
			row(s.Source, string(s.State), lag, strconv.Itoa(s.Unacknowledged), s.Reason)
		}
	})
}

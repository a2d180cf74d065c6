package console

import (
	"context"
	"net/http"
	"sync"
	"time"

	"chorus/internal/broker"
	"chorus/internal/choreography"
	"chorus/internal/tracker"
)

// groupLag is how far one consumer group is behind, as an outside observer sees it.
type groupLag struct {
	Group    string         `json:"group"`
	State    string         `json:"state"`
	Members  int            `json:"members"`
	Behind   int64          `json:"behind"`    // records, over all partitions
	NoCommit int            `json:"no_commit"` // partitions in which the group has never committed: a state of its own, not a lag of 0
	Lags     []partitionLag `json:"partitions"`
	Error    string         `json:"error,omitempty"` // why it could not be observed
}

type partitionLag struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"` // -1 when there is no commit
	End       int64  `json:"end"`
	Behind    int64  `json:"behind"`
	NoCommit  bool   `json:"no_commit,omitempty"`
}

// observeWithin bounds the questions about lag.
const observeWithin = 5 * time.Second

// lags observes every group of the choreography, and the tracker's.
func (s *server) lags(ctx context.Context) []groupLag {
	ctx, cancel := context.WithTimeout(ctx, observeWithin)
	defer cancel()
	who := append(choreography.Participants(), tracker.Name)
	out := make([]groupLag, len(who))
	var wg sync.WaitGroup
	for i, p := range who {
		wg.Go(func() {
			topics := tracker.Topics()
			if p != tracker.Name {
				topics = nil
				for _, owner := range choreography.Sources(p) {
					topics = append(topics, owner.Topic())
				}
			}
			state, err := s.lag(ctx, string(p), topics)
			out[i] = summarize(state, err)
			out[i].Group = string(p)
		})
	}
	wg.Wait()
	return out
}

func summarize(state broker.GroupState, err error) groupLag {
	if err != nil {
		return groupLag{Error: err.Error(), Lags: []partitionLag{}}
	}
	g := groupLag{State: state.State, Members: state.Members, Lags: []partitionLag{}}
	for _, l := range state.Lags {
		g.Behind += l.Behind
		if l.NoCommit {
			g.NoCommit++
		}
		g.Lags = append(g.Lags, partitionLag{l.Topic, l.Partition, l.Committed, l.End, l.Behind, l.NoCommit})
	}
	return g
}

func (s *server) getLag(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, map[string]any{"groups": s.lags(r.Context())}, nil)
}

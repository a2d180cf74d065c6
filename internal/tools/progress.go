package tools

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress shows how far a load is: bars for a person, a line every two seconds for a file.
type progress struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

const (
	barEvery  = 100 * time.Millisecond
	lineEvery = 2 * time.Second
)

// startProgress shows the board's counts until stop.
func startProgress(out io.Writer, total int, b *board) *progress {
	ctx, cancel := context.WithCancel(context.Background())
	p := &progress{cancel: cancel}
	p.wg.Go(func() {
		if isTerminal(out) {
			bars(ctx, out, total, b)
		} else {
			plain(ctx, out, total, b)
		}
	})
	return p
}

func (p *progress) stop() {
	p.cancel()
	p.wg.Wait()
}

func bars(ctx context.Context, out io.Writer, total int, b *board) {
	container := mpb.New(mpb.WithOutput(out))
	bar := func(name string) *mpb.Bar {
		return container.AddBar(int64(total),
			mpb.PrependDecorators(decor.Name(name, decor.WC{W: 8, C: decor.DindentRight}), decor.CountersNoUnit("%d / %d", decor.WC{W: 16})),
			mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5})))
	}
	placed, ended := bar("placed"), bar("ended")
	every(ctx, barEvery, func() {
		n, m := b.counts()
		placed.SetCurrent(int64(n))
		ended.SetCurrent(int64(m))
	})
	placed.Abort(false) // of a bar that is full this is nothing
	ended.Abort(false)
	container.Wait()
}

func plain(ctx context.Context, out io.Writer, total int, b *board) {
	last := ""
	every(ctx, lineEvery, func() {
		n, m := b.counts()
		if line := fmt.Sprintf("placed %d of %d, ended %d", n, total, m); line != last {
			fmt.Fprintln(out, line)
			last = line
		}
	})
}

// every shows at intervals, and once more at the end.
func every(ctx context.Context, interval time.Duration, show func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			show()
			return
		case <-tick.C:
			show()
		}
	}
}

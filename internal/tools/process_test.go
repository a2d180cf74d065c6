package tools

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"chorus/internal/cluster"
	"chorus/internal/web"
)

func TestProcesses(t *testing.T) {
	t.Parallel()
	var did atomic.Value
	billing := cluster.Status{Name: "billing", Group: "billing", PID: 4711, State: cluster.Ready, Since: time.Now().Add(-time.Minute), Restarts: 2, LastExit: "signal: killed", Log: "/x/log/billing.log"}
	url := serve(t, map[string]http.HandlerFunc{
		"GET /processes": answer([]cluster.Status{billing, {Name: "cdc", Group: "cdc", State: cluster.Stopped, Since: time.Now()}}),
		"POST /processes/billing/{action}": func(w http.ResponseWriter, r *http.Request) {
			did.Store(r.PathValue("action"))
			b := billing
			b.PID, b.State = 0, cluster.Backoff
			web.JSON(w, http.StatusOK, []cluster.Status{b})
		},
	})
	dir := t.TempDir()
	raw, err := json.Marshal(cluster.File{Control: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	to := &said{}
	text := func() string {
		defer to.out.Reset()
		return strings.Join(strings.Fields(to.out.String()), " ")
	}
	if err := run(t, &PsCmd{Folder: Folder{dir}, Output: to.output(false)}); err != nil {
		t.Fatal(err)
	}
	contains(t, text(), "billing 4711 ready 1m0s ago 2 signal: killed /x/log/billing.log", "cdc - stopped ")
	at := target{Folder: Folder{dir}, Output: to.output(false), Name: "billing"}
	for action, c := range map[string]runner{
		"kill": &KillCmd{at}, "freeze": &FreezeCmd{at}, "thaw": &ThawCmd{at}, "stop": &StopCmd{at}, "start": &StartCmd{at},
	} {
		if err := run(t, c); err != nil || did.Load() != action {
			t.Errorf("%s: the supervisor was asked to %v, %v", action, did.Load(), err)
		}
		contains(t, text(), "billing - backoff")
	}
	at.Name = "bill"
	if err := run(t, &KillCmd{at}); err == nil || err.Error() != "there is no process bill; processes are billing, cdc" {
		t.Errorf("got %v", err)
	}
	if err := run(t, &PsCmd{Folder: Folder{left(t, "")}}); err == nil || !strings.Contains(err.Error(), "its addresses do not answer") {
		t.Errorf("got %v", err)
	}
}

package tools

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chorus/internal/cluster"
)

// left is a data folder whose supervisor was killed: its file is there and nobody listens.
func left(t *testing.T, front string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	dir := t.TempDir()
	raw, err := json.Marshal(cluster.File{
		Control:   "http://" + l.Addr().String(),
		Addresses: map[string]string{"front": front, "kafka": l.Addr().String(), "orders": "http://" + l.Addr().String()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cluster.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheFrontIsThatOfTheFolder(t *testing.T) {
	t.Parallel()
	s, to := open(t), &said{}
	c := place(s, to, "ada", false, false)
	c.Front = Front{Data: folder(t, map[string]string{"front": s.url})}
	if err := run(t, c); err != nil || to.out.String() != "1\n" {
		t.Errorf("got %q, %v", to.out.String(), err)
	}
	c.Front = Front{URL: s.url, Data: left(t, "http://127.0.0.1:1")} // the flag wins
	if err := run(t, c); err != nil {
		t.Error(err)
	}
	front, err := Front{Data: t.TempDir()}.client(t.Context())
	if err != nil || front.base != defaultFront {
		t.Errorf("without a cluster: %v, %v", front, err)
	}
}

// A supervisor that was killed leaves addresses at which Kafka's and the registry's clients would try for a long time.
func TestAClusterThatIsGoneIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	dir, to := left(t, "http://127.0.0.1:1"), &said{}
	all := Cluster{Data: dir}
	for name, c := range map[string]runner{
		"trace": &TraceCmd{Front: Front{Data: dir}, Output: to.output(false), Order: Number{1}},
		"lag":   &LagCmd{Cluster: all, Output: to.output(false)},
		"tail":  &TailCmd{Cluster: all, Output: to.output(false), Topic: "orders", From: "end"},
		"check": &VerifyCmd{Cluster: all, Output: to.output(false)},
	} {
		began := time.Now()
		err := run(t, c)
		if err == nil || !strings.HasPrefix(err.Error(), "no cluster is up in "+dir+" (its addresses do not answer)") {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
	url := serve(t, map[string]http.HandlerFunc{"GET /v1/inspect/dead-letters": answer(map[string]any{"dead_letters": []string{}})})
	all.OrdersURL = url
	if addresses, err := all.addresses(t.Context()); err != nil || addresses["orders"] != url || addresses["kafka"] != "" {
		t.Errorf("flags beside a cluster that is gone: %v, %v", addresses, err)
	}
}

package cluster

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFaultsOfAListAreReportedTogether(t *testing.T) {
	t.Parallel()
	_, err := New(slog.New(slog.DiscardHandler), Config{Control: "0.0.0.0:80"}, []Process{
		{Name: "twice"}, {Name: "twice"},
		{Name: "../log"},
		{Name: "lost", After: []string{"nobody"}},
		{Name: "u1", Ready: "ftp://127.0.0.1"}, {Name: "u2", Ready: "tcp://127.0.0.1"}, {Name: "u3", Ready: "http://"},
		{Name: "x", After: []string{"y"}}, {Name: "y", After: []string{"z"}}, {Name: "z", After: []string{"x"}},
	})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"lock", "0.0.0.0", `"twice" is given twice`, `"../log"`, `"nobody"`, "ftp:", "tcp:", "no host", "x -> y -> z -> x"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s\n%v", want, err)
		}
	}
}

func TestReplicate(t *testing.T) {
	t.Parallel()
	base := Process{Name: "billing", Args: []string{"billing"}, After: []string{"broker"}}
	set := func(n int, p *Process) { p.Args = append(p.Args, fmt.Sprint("--replica=", n)) }
	var got []string
	for _, p := range slices.Concat(Replicate(base, 2, set), Replicate(base, 1, nil)) {
		got = append(got, fmt.Sprint(p.Name, " ", p.Group, " ", p.Args, p.After))
	}
	want := []string{
		"billing-1 billing [billing --replica=1] [broker]",
		"billing-2 billing [billing --replica=2] [broker]",
		"billing billing [billing] [broker]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPortsAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := Ports(dir, "kafka", "registry")
	if err != nil {
		t.Fatal(err)
	}
	if first["kafka"] == first["registry"] || first["kafka"] < firstPort || first["kafka"] > lastPort {
		t.Errorf("ports %v", first)
	}
	// A later start knows one service more, and finds one port taken.
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", first["registry"]))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	second, err := Ports(dir, "console", "registry", "kafka")
	if err != nil {
		t.Fatal(err)
	}
	if second["kafka"] != first["kafka"] {
		t.Errorf("port of kafka moved from %d to %d", first["kafka"], second["kafka"])
	}
	if second["registry"] == first["registry"] || second["console"] == first["kafka"] || second["console"] == second["registry"] {
		t.Errorf("ports %v, before %v", second, first)
	}
	third, err := Ports(dir, "console", "registry", "kafka")
	if diff := cmp.Diff(second, third); err != nil || diff != "" {
		t.Errorf("third start: %v (-want +got):\n%s", err, diff)
	}
}

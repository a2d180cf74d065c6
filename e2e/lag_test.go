package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdLag waits until chorus lag shows a group as wanted.
func cmdLag(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: lag GROUP|all BEHIND MEMBERS")
	}
	behind, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	members, err := strconv.Atoi(args[2])
	ts.Check(err)
	c := of(ts)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var last []byte
	err = c.wait(fmt.Sprintf("%s to be %d behind with %d members", args[0], behind, members), func() (bool, error) {
		var view struct {
			Groups []struct {
				Group   string
				Behind  int64
				Members int
			}
		}
		cmd := exec.CommandContext(ctx, c.bin, "lag", "--json", "--data", c.data)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if last, err = cmd.Output(); err != nil {
			return false, fmt.Errorf("chorus lag: %w\n%s", err, errs.Bytes())
		}
		if err := json.Unmarshal(last, &view); err != nil || len(view.Groups) == 0 {
			return false, fmt.Errorf("chorus lag: %w\n%s", err, last)
		}
		found := false
		for _, g := range view.Groups {
			if g.Behind < 0 {
				return false, fmt.Errorf("%s is %d behind", g.Group, g.Behind)
			}
			if args[0] != "all" && g.Group != args[0] {
				continue
			}
			if found = true; g.Behind != behind || g.Members != members {
				return false, nil
			}
		}
		return found, nil
	})
	if err != nil {
		ts.Fatalf("%v; chorus lag:\n%s", err, last)
	}
}

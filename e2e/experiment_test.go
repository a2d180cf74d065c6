package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdInterrupt runs an experiment up to a line that it says, and ends it there as Ctrl-C does, or kill -9.
func cmdInterrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) == 3 && args[2] != "KILL" || len(args) > 3 {
		ts.Fatalf("usage: interrupt EXPERIMENT TEXT [KILL]")
	}
	sig, ends := syscall.SIGINT, 1
	if len(args) == 3 {
		sig, ends = syscall.SIGKILL, -1
	}
	c := of(ts)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.bin, "experiment", "run", args[0])
	cmd.Env = append(os.Environ(), "CHORUS_URL="+c.front(), "CHORUS_DATA="+c.data)
	cmd.Stderr = ts.Stderr()
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	said := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if !said && strings.Contains(lines.Text(), args[1]) {
			said = true
			ts.Check(cmd.Process.Signal(sig))
		}
	}
	err = cmd.Wait()
	if !said {
		ts.Fatalf("%s has not said %q (%v)", args[0], args[1], err)
	}
	if code := cmd.ProcessState.ExitCode(); code != ends {
		ts.Fatalf("%s was interrupted and ended with %d", args[0], code)
	}
}

// cmdClick starts an experiment as the button of the console does, and waits until the page says how it came out.
func cmdClick(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: click EXPERIMENT")
	}
	c := of(ts)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text, err := c.browse(ctx, http.MethodPost, "/experiments/"+args[0]) // the answer sends the browser to the page
	ts.Check(err)
	if !strings.Contains(text, ">under way<") {
		ts.Fatalf("the page does not say that it is under way:\n%s", text)
	}
	row := regexp.MustCompile(`id="x` + args[0] + `">.*class="flag">([^<]+)<`)
	ts.Check(c.wait(args[0]+" to come out", func() (bool, error) {
		text, err := c.browse(ctx, http.MethodGet, "/experiments")
		if err != nil {
			return false, err
		}
		said := row.FindStringSubmatch(text)
		if said != nil && said[1] != "as expected" {
			return false, fmt.Errorf("it is %s:\n%s", said[1], text)
		}
		return said != nil, nil
	}))
}

// browse reads a page as a browser on the console's own pages does.
func (c *system) browse(ctx context.Context, method, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.front()+path, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Origin", c.front())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return string(text), err
}

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// block is a command in a document, with what it must print.
type block struct {
	section string
	command string
	want    *regexp.Regexp
}

var (
	sections = regexp.MustCompile(`(?m)^## (.*)$`)
	shells   = regexp.MustCompile("(?s)```sh\n(.*?)```\n(?:<!-- want: (.*?) -->)?")
)

// blocks finds the commands of a document. Each has a comment behind it, which a reader does not see, with what it must print.
func blocks(text string) (all []block, err error) {
	heads := sections.FindAllStringSubmatchIndex(text, -1)
	for i, h := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		for _, m := range shells.FindAllStringSubmatch(text[h[1]:end], -1) {
			if m[2] == "" {
				return nil, fmt.Errorf("nobody says what this must print:\n%s", m[1])
			}
			want, err := regexp.Compile(m[2])
			if err != nil {
				return nil, err
			}
			all = append(all, block{text[h[2]:h[3]], m[1], want})
		}
	}
	return all, nil
}

// cmdFollow runs the commands of a document's sections as a reader would: in a folder with bin/chorus and .chorus, one after
// the other; what one has put into B, the next ones use.
func cmdFollow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: follow FILE SECTION ...")
	}
	c := of(ts)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(here()), args[0]))
	ts.Check(err)
	all, err := blocks(string(text))
	ts.Check(err)
	for link, to := range map[string]string{"bin": filepath.Dir(c.bin), ".chorus": c.data} {
		if err := os.Symlink(to, ts.MkAbs(link)); !os.IsExist(err) {
			ts.Check(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	given, ran := "", map[string]bool{}
	for _, b := range all {
		if line, _, _ := strings.Cut(b.command, "\n"); strings.HasPrefix(line, "B=") {
			given = line + "\n"
		}
		if !slices.Contains(args[1:], b.section) {
			continue
		}
		ran[b.section] = true
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", given+b.command)
		cmd.Dir, cmd.Stderr = ts.MkAbs("."), ts.Stderr()
		cmd.Env = append(os.Environ(), "CHORUS_URL="+c.front())
		out, err := cmd.Output()
		if err != nil {
			ts.Fatalf("%s%v; it printed:\n%s", b.command, err, out)
		}
		if !b.want.Match(out) {
			ts.Fatalf("%sdoes not print %s but:\n%s", b.command, b.want, out)
		}
	}
	for _, section := range args[1:] {
		if !ran[section] {
			ts.Fatalf("%s has no commands under %q", args[0], section)
		}
	}
}

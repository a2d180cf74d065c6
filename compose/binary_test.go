package compose

import (
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// variable finds the ones that the help of a command names.
var variable = regexp.MustCompile(`\$(CHORUS_[A-Z_]+)`)

// What the file tells a process, the process understands: a variable with a typing error would be passed over in silence.
func TestCommandsAreUnderstood(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "chorus")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "chorus/cmd/chorus").CombinedOutput(); err != nil {
		t.Fatalf("build chorus: %v\n%s", err, out)
	}
	help := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), bin, append(args, "--help")...).CombinedOutput()
		if err != nil {
			t.Errorf("chorus %s --help: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	for name, s := range load(t, shipped(t)).Services {
		if s.Build == nil {
			continue
		}
		var text string
		if name == "tools" { // for several commands
			for _, args := range [][]string{{"place"}, {"verify"}, {"lag"}, {"schemas", "list"}} {
				text += help(args...)
			}
		} else {
			var words []string
			for _, arg := range s.Command {
				flag, isFlag := strings.CutPrefix(arg, "--")
				if !isFlag {
					words = append(words, arg)
					continue
				}
				flag, _, _ = strings.Cut(flag, "=")
				if !strings.Contains(help(words...), "--"+flag+"=") {
					t.Errorf("%s: chorus %s has no flag --%s", name, strings.Join(words, " "), flag)
				}
			}
			text = help(words...)
		}
		known := map[string]bool{}
		for _, m := range variable.FindAllStringSubmatch(text, -1) {
			known[m[1]] = true
		}
		for _, v := range slices.Sorted(maps.Keys(s.Environment)) {
			if strings.HasPrefix(v, "CHORUS_") && !known[v] {
				t.Errorf("%s: chorus %s does not know %s", name, strings.Join(s.Command, " "), v)
			}
		}
	}
}

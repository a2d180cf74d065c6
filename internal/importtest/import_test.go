package importtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "chorus/"

// listed is what go list says of a package.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
}

// TestImports holds every package of the module to its row, and names the offender.
func TestImports(t *testing.T) {
	packages := list(t)
	if len(packages) < 10 {
		t.Fatalf("go list finds %d packages", len(packages))
	}
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module)
		r, ok := rowOf(name)
		if !ok {
			t.Errorf("%s has no row in internal/importtest/table_test.go", name)
			continue
		}
		for _, fault := range r.faults(name, p.Imports) {
			t.Error(fault)
		}
		if r.pure {
			for _, file := range p.GoFiles {
				for _, fault := range clocks(t, filepath.Join(p.Dir, file)) {
					t.Errorf("%s is pure and calls %s", name, fault)
				}
			}
		}
	}
}

// fits reports whether a package is meant by a pattern.
func fits(pattern, name string) bool {
	under, all := strings.CutSuffix(pattern, "...")
	if !all {
		return pattern == name
	}
	return under == "" || name == strings.TrimSuffix(under, "/") || strings.HasPrefix(name, under)
}

func fitsAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(p, name) })
}

// rowOf finds the row with the longest pattern that fits; of equal ones the exact one.
func rowOf(name string) (row, bool) {
	var best row
	for _, r := range rows {
		if fits(r.pattern, name) && (len(r.pattern) > len(best.pattern) || r.pattern == name) {
			if best.pattern != name {
				best = r
			}
		}
	}
	return best, best.pattern != ""
}

func below(path, name string) bool { return name == path || strings.HasPrefix(name, path+"/") }

// faults lists the imports that a package may not have.
func (r row) faults(name string, imports []string) []string {
	var faults []string
	add := func(imported, why string) { faults = append(faults, name+" imports "+imported+": "+why) }
	for _, imported := range imports {
		if ours, ok := strings.CutPrefix(imported, module); ok {
			switch {
			case strings.HasSuffix(ours, "test") && !strings.HasSuffix(name, "test"):
				add(ours, "only tests import a test kit")
			case fits("services/...", name) && fits("services/...", ours) && service(name) != service(ours):
				add(ours, "services never import services")
			case !fitsAny(r.may, ours):
				add(ours, "its row does not allow it")
			}
			continue
		}
		for _, lib := range libraries {
			if below(lib.path, imported) && !fitsAny(lib.only, name) {
				add(imported, "only for "+strings.Join(lib.only, ", "))
			}
		}
		if !r.pure {
			continue
		}
		if strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
			add(imported, "a pure package needs no library")
		}
		if slices.ContainsFunc(impure, func(path string) bool { return below(path, imported) }) {
			add(imported, "the package is pure")
		}
	}
	return faults
}

// service is the first two elements of a path.
func service(name string) string {
	parts := strings.SplitN(name, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// clocks lists the calls of a file that read a clock, wait or print.
func clocks(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return clocksOf(parsed)
}

func clocksOf(file *ast.File) []string {
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); ok && slices.Contains(clocked[pkg.Name], sel.Sel.Name) {
			found = append(found, pkg.Name+"."+sel.Sel.Name)
		}
		return true
	})
	return found
}

// TestRulesFindOffenders: a rule that finds nothing is broken.
func TestRulesFindOffenders(t *testing.T) {
	for _, c := range []struct{ name, imports, want string }{
		{"internal/event", "os", "the package is pure"},
		{"internal/explore", "sync/atomic", "the package is pure"},
		{"services/orders/order", "math/rand/v2", "the package is pure"},
		{"internal/decision", "github.com/jackc/pgx/v5", "needs no library"},
		{"internal/decision", "chorus/internal/choreography", "its row does not allow it"},
		{"services/billing", "chorus/services/orders/order", "services never import services"},
		{"services/billing/payment", "chorus/services/shipping/shipment", "services never import services"},
		{"internal/participant", "chorus/services/orders", "its row does not allow it"},
		{"console", "chorus/services/orders", "its row does not allow it"},
		{"internal/tracker", "chorus/internal/pgtest", "only tests import a test kit"},
		{"internal/participant", "github.com/linkedin/goavro/v2", "only for internal/codec"},
		{"internal/intent", "github.com/twmb/franz-go/pkg/kgo", "only for internal/broker"},
		{"inbox", "github.com/twmb/franz-go/pkg/kfake", "only for internal/brokertest"},
		{"internal/pg", "github.com/jackc/pglogrepl", "only for cdc"},
	} {
		r, ok := rowOf(c.name)
		if !ok {
			t.Errorf("%s has no row", c.name)
			continue
		}
		faults := r.faults(c.name, []string{c.imports})
		if len(faults) != 1 || !strings.Contains(faults[0], c.want) {
			t.Errorf("%s importing %s: found %q, want %q", c.name, c.imports, faults, c.want)
		}
	}
	if _, ok := rowOf("internal/util"); ok {
		t.Error("a package that nobody knows has a row")
	}
	src := "package p\nimport \"time\"\nfunc f() { time.Sleep(1); _ = time.Second; _ = time.Now() }\n"
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := clocksOf(file); !slices.Equal(got, []string{"time.Sleep", "time.Now"}) {
		t.Errorf("clocks found: %q", got)
	}
}

package docscheck

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repository makes one with a package, a script and a Makefile.
func repository(t *testing.T) *Code {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"shop/till_test.go":          "package shop\nfunc TestMain(m *testing.M) {}\nfunc TestTill(t *testing.T) { t.Run(\"no coin\", nil) }\nfunc FuzzTill(f *testing.F) {}\nfunc (x) TestNot() {}\n",
		"e2e/e2e_test.go":            "package e2e\nfunc TestScripts(t *testing.T) {}\n",
		"e2e/testdata/kill.txt":      "up\n",
		"Makefile":                   "X := 1\ntest: lint\n\tgo test\n",
		".hidden/hidden_test.go":     "not Go",
		"shop/till.go":               "package shop\nfunc TestNoTest() {}\n",
		"docs/decisions/0001-why.md": "",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	code, err := Read(root)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func TestNamesAreLookedUp(t *testing.T) {
	t.Parallel()
	code := repository(t)
	for name, want := range map[string]string{
		"shop.TestTill":              "",
		"shop.FuzzTill":              "",
		"shop.TestTill/no coin":      "",
		"shop.TestTill/no_coin":      "",
		"e2e/testdata/kill.txt":      "",
		"docs/decisions/0001-why.md": "",
		"shop.TestTill/no change":    "no subtest",
		"shop.TestTi":                "no test",
		"shop.TestNot":               "no test",
		"shop.TestNoTest":            "no test",
		"shop.TestMain":              "no test",
		"e2e/testdata/kil.txt":       "no file",
		"../docs/api.md":             "neither",
		"TestTill":                   "neither",
	} {
		if got := code.Lacks(name); want == "" && got != "" || want != "" && !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for command, want := range map[string]string{
		"make test":                          "",
		"make tests":                         "no target",
		"go test ./shop -run TestTill":       "",
		"go test ./shop -run 'Till$'":        "",
		"go test ./shop":                     "",
		"go test ./shop -run TestTillX":      "no test",
		"go test ./shops":                    "no test",
		"go test shop TestTill":              "want go test",
		"go test ./e2e -run Scripts/kill":    "",
		"go test ./e2e -run 'Scripts/kill$'": "",
		"go test ./e2e -run Scripts/killed":  "no file",
		"go test ./shop -run Till(":          "missing closing",
	} {
		got, known := code.LacksCommand(command)
		if !known || want == "" && got != "" || want != "" && !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	if _, known := code.LacksCommand("bin/chorus verify"); known {
		t.Error("chorus verify is judged here")
	}
}

func TestRowsAreComplete(t *testing.T) {
	t.Parallel()
	rows := parse("| id | what |\n|---|---|\n| C1 | a \\| `b` |\n| C2 | |\n| C2 | x | y |\n| D1 | x |\n\nC3 | no table\n| Name | x |\n")
	got := Complete(rows, Numbered("C", 1, 3))
	want := []string{
		"line 4: C2: cell 2 is empty",
		"line 5: C2 has a row in line 4 already",
		"line 5: C2 has 3 cells, others have 2",
		"line 6: nobody knows D1",
		"C3 has no row",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if rows[0].Cell(0) != "a | `b`" || rows[0].Cell(7) != "" {
		t.Errorf("cells %q", rows[0].Cells)
	}
	if diff := cmp.Diff([]string{"a b", "c"}, Spans("x `a b` y `c`")); diff != "" {
		t.Error(diff)
	}
}

package docscheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Code is what a repository has to name.
type Code struct {
	root    string
	tests   map[string]map[string]bool // by package folder and name of the test: the literals of its file
	targets map[string]bool            // of the Makefile
}

// Read goes through the repository at root.
func Read(root string) (*Code, error) {
	c := &Code{root: root, tests: map[string]map[string]bool{}, targets: map[string]bool{}}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		return c.file(name)
	})
	if err != nil {
		return nil, fmt.Errorf("read the tests in %s: %w", root, err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return nil, fmt.Errorf("read the Makefile: %w", err)
	}
	for _, m := range target.FindAllStringSubmatch(string(makefile), -1) {
		c.targets[m[1]] = true
	}
	return c, nil
}

var target = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)

// file notes the tests of a file.
func (c *Code) file(name string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		return err
	}
	folder, err := filepath.Rel(c.root, filepath.Dir(name))
	if err != nil {
		return err
	}
	literals := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				literals[subtest(text)] = true
			}
		}
		return true
	})
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && (strings.HasPrefix(f.Name.Name, "Test") || strings.HasPrefix(f.Name.Name, "Fuzz")) && f.Name.Name != "TestMain" {
			c.tests[filepath.ToSlash(folder)+"."+f.Name.Name] = literals
		}
	}
	return nil
}

// subtest is a name as go test prints it.
func subtest(name string) string { return strings.ReplaceAll(name, " ", "_") }

var testName = regexp.MustCompile(`^([a-z0-9/_]+)\.((?:Test|Fuzz)\w*)(?:/(.+))?$`)

// Lacks says what is wrong with the name of a test or of a file; "" when it is there.
func (c *Code) Lacks(name string) string {
	if m := testName.FindStringSubmatch(name); m != nil {
		literals, ok := c.tests[m[1]+"."+m[2]]
		if !ok {
			return "there is no test " + name
		}
		if m[3] != "" && !literals[subtest(m[3])] {
			return fmt.Sprintf("%s.%s has no subtest %q", m[1], m[2], m[3])
		}
		return ""
	}
	if strings.Contains(name, "..") || path.IsAbs(name) || !strings.Contains(name, "/") && path.Ext(name) == "" {
		return name + " is neither a test nor a file"
	}
	if _, err := os.Stat(filepath.Join(c.root, filepath.FromSlash(name))); err != nil {
		return "there is no file " + name
	}
	return ""
}

// IsTest reports whether a name is that of a test or of a script, and not of some other file.
func IsTest(name string) bool {
	return testName.MatchString(name) || strings.HasPrefix(name, "e2e/testdata/") && strings.HasSuffix(name, ".txt")
}

var goTest = regexp.MustCompile(`^go test (?:-\S+ )*(?:\./)?([a-z0-9/_]+)(?: -run '?([^' ]+)'?)?$`)

// LacksCommand says what is wrong with a command of go or make; other commands are their owners' to judge, and known is false.
func (c *Code) LacksCommand(command string) (fault string, known bool) {
	words := strings.Fields(command)
	switch {
	case len(words) > 1 && words[0] == "make":
		if !c.targets[words[1]] {
			return "the Makefile has no target " + words[1], true
		}
		return "", true
	case strings.HasPrefix(command, "go test "):
		return c.lacksGoTest(command), true
	}
	return "", false
}

// lacksGoTest finds the package, and a test that the pattern of -run chooses.
func (c *Code) lacksGoTest(command string) string {
	m := goTest.FindStringSubmatch(command)
	if m == nil {
		return fmt.Sprintf("%q: want go test ./PACKAGE -run PATTERN", command)
	}
	top, rest, _ := strings.Cut(m[2], "/")
	pattern, err := regexp.Compile(top)
	if err != nil {
		return fmt.Sprintf("%q: %v", command, err)
	}
	for name := range c.tests {
		if folder, test, _ := strings.Cut(name, "."); folder == m[1] && pattern.MatchString(test) {
			return c.lacksScript(folder, test, rest)
		}
	}
	return fmt.Sprintf("%q chooses no test", command)
}

// lacksScript: the subtests of TestScripts are files.
func (c *Code) lacksScript(folder, test, script string) string {
	if folder != "e2e" || test != "TestScripts" || script == "" {
		return ""
	}
	return c.Lacks("e2e/testdata/" + strings.Trim(script, "^$") + ".txt")
}

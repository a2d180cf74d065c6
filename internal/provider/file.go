package provider

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"chorus/internal/event"
	"chorus/internal/outside"
)

//go:embed providers.yaml
var shipped []byte

// File is a providers file, read and checked: every provider with its requests and rules, and the routes of every step.
// It does not change; a new file takes a new process.
type File struct {
	specs  map[string]*spec
	routes map[event.Step][]route
}

// Shipped is the text of the file that is used when there is no other.
func Shipped() []byte { return slices.Clone(shipped) }

// Load reads the file at path, or the shipped one when path is empty. The error is [Faults] when it is the text that is wrong.
func Load(path string) (*File, error) {
	if path == "" {
		return Parse("providers.yaml (shipped)", shipped, os.LookupEnv)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the providers file: %w", err)
	}
	return Parse(path, text, os.LookupEnv)
}

// Parse reads a providers file. env looks up what ${env:NAME} stands for. The error is of type [Faults] and holds all faults.
func Parse(name string, text []byte, env func(string) (string, bool)) (*File, error) {
	r := &reader{file: name, env: env}
	root := r.root(text)
	if r.err() != nil {
		return nil, r.err()
	}
	f := &File{}
	var routes, providers node
	r.fields(root, map[string]func(node){
		"routes":    func(n node) { routes = n },
		"providers": func(n node) { providers = n },
	})
	for name, n := range map[string]node{"routes": routes, "providers": providers} {
		if n.Node == nil {
			r.fault(root, "no %s", name)
		}
	}
	if r.err() != nil && (routes.Node == nil || providers.Node == nil) {
		return nil, r.err()
	}
	f.routes = r.readRoutes(routes)
	f.specs = r.readSpecs(providers, f)
	for _, routes := range f.routes {
		for _, one := range routes {
			if f.specs[one.to] == nil {
				r.fault(one.at, "unknown provider %q: want one of %s", one.to, strings.Join(sortedKeys(f.specs), ", "))
			}
		}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// steps are those that may call a provider.
func (f *File) steps(name string) (all []outside.Shape) {
	for _, shape := range outside.Shapes() {
		if slices.Contains(f.Providers(shape.Step), name) {
			all = append(all, shape)
		}
	}
	return all
}

// Limits returns what holds for a provider; zeros for one that is not in the file.
func (f *File) Limits(name string) Limits {
	if s := f.specs[name]; s != nil {
		return s.limits
	}
	return Limits{}
}

// Set opens the providers that the steps may call: those of their routes, and those that no route leads to any more but that
// may still have open calls. base is what {base} stands for, timeout holds for providers that have none of their own.
func (f *File) Set(base string, timeout time.Duration, steps ...event.Step) (*Set, error) {
	base = strings.TrimRight(base, "/")
	if err := checkURL(base); err != nil {
		return nil, fmt.Errorf("base URL of the providers: %w", err)
	}
	set := &Set{base: base, clients: map[string]*client{}}
	for name, s := range f.specs {
		routed := f.steps(name)
		ours := slices.ContainsFunc(routed, func(shape outside.Shape) bool { return slices.Contains(steps, shape.Step) })
		if ours || len(routed) == 0 {
			set.clients[name] = newClient(s, timeout)
		}
	}
	return set, nil
}

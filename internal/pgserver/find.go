package pgserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldest is the oldest major version that chorus runs on (D3).
const oldest = 15

// places are patterns of folders where packages put the server's programs,
// beside PATH and what pg_config says.
var places = []string{
	"/usr/lib/postgresql/*/bin",                               // Debian, Ubuntu
	"/usr/lib/postgresql*/bin",                                // SUSE
	"/usr/libexec/postgresql*",                                // Alpine
	"/usr/pgsql-*/bin",                                        // PGDG for Red Hat
	"/opt/homebrew/opt/postgresql@*/bin",                      // Homebrew on ARM
	"/usr/local/opt/postgresql@*/bin",                         // Homebrew on Intel
	"/Applications/Postgres.app/Contents/Versions/[0-9]*/bin", // Postgres.app
	"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",         // Homebrew on Linux
}

// ErrNoBinaries says that the machine has no suitable PostgreSQL.
var ErrNoBinaries = errors.New("no suitable PostgreSQL on this machine")

// Find returns the folder of the machine's initdb and postgres: of the given
// major version, or with 0 of PATH's when that is recent enough and else of the
// newest. The error is [ErrNoBinaries] when there is none, with what was seen.
func Find(ctx context.Context, major int) (bin string, err error) {
	var seen []string
	for i, group := range candidates(ctx) {
		type found struct {
			bin   string
			major int
		}
		var fit []found
		for _, dir := range group {
			version, err := majorOf(ctx, dir)
			if err != nil {
				continue
			}
			seen = append(seen, fmt.Sprintf("%s (version %d)", dir, version))
			if version >= oldest && (major == 0 || version == major) {
				fit = append(fit, found{dir, version})
			}
		}
		if len(fit) == 0 {
			continue
		}
		if i > 0 {
			slices.SortStableFunc(fit, func(a, b found) int { return cmp.Compare(b.major, a.major) })
		}
		return fit[0].bin, nil
	}
	want := fmt.Sprintf("version %d or later", oldest)
	if major != 0 {
		want = fmt.Sprintf("version %d", major)
	}
	if len(seen) == 0 {
		seen = []string{"none"}
	}
	return "", fmt.Errorf("%w: looking for %s, found %s", ErrNoBinaries, want, strings.Join(seen, ", "))
}

// candidates returns folders to look in: first PATH's, then the places.
func candidates(ctx context.Context) [][]string {
	var onPath, placed []string
	if program, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(program); err == nil {
			onPath = append(onPath, filepath.Dir(real))
		}
	}
	for _, pattern := range places {
		dirs, _ := filepath.Glob(pattern)
		placed = append(placed, dirs...)
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		placed = append(placed, strings.TrimSpace(string(out)))
	}
	return [][]string{onPath, placed}
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// majorOf runs the folder's programs for their version; it fails when one of
// the two is missing or does not run here.
func majorOf(ctx context.Context, bin string) (int, error) {
	if _, err := os.Stat(filepath.Join(bin, "initdb")); err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("ask %s for its version: %w", filepath.Join(bin, "postgres"), err)
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("%s says %q instead of its version", filepath.Join(bin, "postgres"), out)
	}
	return strconv.Atoi(string(match[1]))
}

// binaries decides which programs to use: the configured folder, those of the
// machine, or fetched ones. A cluster can be run only by the major version that
// made it, so an existing one narrows the choice.
func (c Config) binaries(ctx context.Context) (string, error) {
	major, err := c.majorOfData()
	if err != nil {
		return "", err
	}
	if c.Bin != "" {
		version, err := majorOf(ctx, c.Bin)
		switch {
		case err != nil:
			return "", fmt.Errorf("PostgreSQL in %s: %w", c.Bin, err)
		case version < oldest:
			return "", fmt.Errorf("PostgreSQL in %s is version %d; %d or later is needed", c.Bin, version, oldest)
		case major != 0 && version != major:
			return "", fmt.Errorf("%s was made by PostgreSQL %d and cannot be run by version %d in %s", c.data(), major, version, c.Bin)
		}
		return c.Bin, nil
	}
	bin, err := Find(ctx, major)
	if !errors.Is(err, ErrNoBinaries) {
		return bin, err
	}
	if major != 0 && major != fetchedMajor {
		return "", fmt.Errorf("%s was made by PostgreSQL %d: %w", c.data(), major, err)
	}
	return c.fetch(ctx)
}

// majorOfData returns the version that made the data folder, 0 when there is none.
func (c Config) majorOfData() (int, error) {
	raw, err := os.ReadFile(filepath.Join(c.data(), "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the version of %s: %w", c.data(), err)
	}
	return strconv.Atoi(strings.TrimSpace(string(raw)))
}

// Binaries returns the folder of the programs that [Start] would use for cfg,
// fetched first when the machine has none.
func Binaries(ctx context.Context, cfg Config) (string, error) {
	cfg, err := cfg.check()
	if err != nil {
		return "", err
	}
	return cfg.binaries(ctx)
}

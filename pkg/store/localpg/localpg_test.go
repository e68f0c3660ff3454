package localpg

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// envHelper makes this test binary a program that starts a server in the named
// directory ("" is a temporary one), prints its pid and DSN, and waits for its standard input to end.
const envHelper = "LOCALPG_TEST_HELPER"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(envHelper); ok {
		os.Exit(helper(dir))
	}
	code := m.Run()
	if err := StopShared(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func helper(dir string) int {
	srv, err := Start(context.Background(), Options{Dir: dir, NoFetch: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(srv.Pid(), srv.Dir(), srv.URL("postgres"))
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := srv.Stop(context.Background()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func start(t *testing.T, opts Options) *Server {
	t.Helper()
	opts.NoFetch = true
	opts.Log = t.Logf
	srv, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return srv
}

// reachableDir is a temporary directory that the server's user can enter, which
// t.TempDir is not: its parent is 0700.
func reachableDir(t *testing.T) string {
	t.Helper()
	a, err := serverAccount("")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(tempBase(a), "localpg-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// query runs one statement that returns one text column in one row.
func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	out, err := tryQuery(t.Context(), dsn, sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}

func tryQuery(ctx context.Context, dsn, sql string) (string, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var out string
	err = conn.QueryRow(ctx, sql).Scan(&out)
	return out, err
}

func exec1(t *testing.T, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d still exists", pid)
		}
	}
}

func TestATemporaryServerLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	srv := start(t, Options{MaxConnections: 17})
	dsn := srv.URL("postgres")
	if got := query(t, dsn, "SHOW max_connections"); got != "17" {
		t.Errorf("max_connections = %s, want 17", got)
	}
	if got := query(t, dsn, "SHOW fsync"); got != "off" {
		t.Errorf("fsync = %s without Options.Sync, want off", got)
	}
	if got := query(t, dsn, "SHOW listen_addresses"); got != "" {
		t.Errorf("listen_addresses = %q, want none", got)
	}
	if srv.TCPURL("postgres") != "" {
		t.Error("a server without a port has a TCP DSN")
	}
	pid, dir := srv.Pid(), srv.Dir()
	if err := srv.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone(t, pid)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s still exists after Stop (%v)", dir, err)
	}
	if srv.Pid() != 0 {
		t.Errorf("Pid() = %d after Stop", srv.Pid())
	}
	if err := srv.Stop(t.Context()); err != nil {
		t.Errorf("second Stop: %v", err)
	}
	if err := srv.Restart(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("Restart after Stop = %v, want ErrStopped", err)
	}
}

func TestTheServerDoesNotRunAsRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root has privileges to drop")
	}
	srv := start(t, Options{})
	info, err := os.Stat(filepath.Join("/proc", strconv.Itoa(srv.Pid())))
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != srv.account.uid || uid == 0 {
		t.Errorf("the postmaster runs as uid %d, want %d (%s)", uid, srv.account.uid, srv.account.name)
	}
	sockets, err := os.Stat(srv.sockets)
	if err != nil {
		t.Fatal(err)
	}
	if sockets.Mode().Perm() != 0o700 {
		t.Errorf("the socket directory has mode %04o: other users are superusers too", sockets.Mode().Perm())
	}
}

func TestAPersistentClusterKeepsItsData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), "pg")
	srv := start(t, Options{Dir: dir, Sync: true})
	dsn := srv.URL("postgres")
	if got := query(t, dsn, "SHOW fsync"); got != "on" {
		t.Errorf("fsync = %s with Options.Sync, want on", got)
	}
	exec1(t, dsn, "CREATE TABLE kept AS SELECT 'one' AS v")

	before := srv.Pid()
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if srv.Pid() == before {
		t.Error("Restart kept the process")
	}
	if got := query(t, dsn, "SELECT v FROM kept"); got != "one" {
		t.Errorf("after Restart v = %q", got)
	}

	srv.Kill()
	if _, err := tryQuery(t.Context(), dsn, "SELECT 'alive'"); err == nil {
		t.Error("a killed server answers")
	}
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatalf("Restart after Kill: %v", err)
	}
	if got := query(t, dsn, "SELECT v FROM kept"); got != "one" {
		t.Errorf("after Kill and Restart v = %q", got)
	}

	if err := srv.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := start(t, Options{Dir: dir})
	if got := query(t, again.URL("postgres"), "SELECT v FROM kept"); got != "one" {
		t.Errorf("after Stop and Start v = %q", got)
	}
}

func TestAClusterStaysItsMakers(t *testing.T) {
	t.Parallel()
	nobody := newAccount(user.Lookup("nobody"))
	if os.Geteuid() != 0 || nobody == nil {
		t.Skip("only root chooses whom the server runs as")
	}
	dir := filepath.Join(reachableDir(t), "pg")
	srv := start(t, Options{Dir: dir})
	exec1(t, srv.URL("postgres"), "CREATE TABLE kept AS SELECT 'one' AS v")
	if err := srv.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// As if it had been made on a machine without a user postgres, which was installed later.
	err := filepath.WalkDir(filepath.Join(dir, "data"), func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(nobody.uid), int(nobody.gid)))
	})
	if err != nil {
		t.Fatal(err)
	}
	again := start(t, Options{Dir: dir})
	if got := query(t, again.URL("postgres"), "SELECT v FROM kept"); got != "one" {
		t.Errorf("v = %q", got)
	}
	if again.account.name != "nobody" {
		t.Errorf("the server runs as %s, want nobody, who owns the cluster", again.account.name)
	}
}

func TestADirectoryHasOneOwner(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), "pg")
	const starters = 4
	var wg sync.WaitGroup
	servers, errs := make([]*Server, starters), make([]error, starters)
	for i := range starters {
		wg.Go(func() {
			servers[i], errs[i] = Start(t.Context(), Options{Dir: dir, NoFetch: true})
		})
	}
	wg.Wait()
	owners := 0
	for i := range starters {
		switch {
		case errs[i] == nil:
			owners++
			defer servers[i].Kill()
			defer servers[i].Stop(context.Background())
		case !errors.Is(errs[i], ErrInUse):
			t.Errorf("Start on an owned directory = %v, want ErrInUse", errs[i])
		case !strings.Contains(errs[i].Error(), dir):
			t.Errorf("the error does not name the directory: %v", errs[i])
		}
	}
	if owners != 1 {
		t.Fatalf("%d servers own %s, want 1", owners, dir)
	}
}

func TestServersRunSideBySide(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	seen := make([]string, 3)
	for i := range seen {
		wg.Go(func() {
			srv, err := Start(t.Context(), Options{NoFetch: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer srv.Stop(context.Background())
			seen[i], err = tryQuery(t.Context(), srv.URL("postgres"), "SELECT system_identifier::text || pg_postmaster_start_time()::text FROM pg_control_system()")
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if seen[0] == seen[1] || seen[1] == seen[2] || seen[0] == seen[2] {
		t.Errorf("two of three servers are the same one: %q", seen)
	}
}

func TestTCPNeedsThePassword(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	srv := start(t, Options{Port: port})
	if got := query(t, srv.TCPURL("postgres"), "SELECT 'in'"); got != "in" {
		t.Errorf("over TCP: %q", got)
	}
	if got := query(t, srv.URL("postgres"), "SELECT 'in'"); got != "in" {
		t.Errorf("over the socket: %q", got)
	}
	bare := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable&passfile=/dev/null", port)
	if _, err := tryQuery(t.Context(), bare, "SELECT 'in'"); err == nil {
		t.Error("the TCP listener lets in a superuser without a password")
	}
}

func TestALongDirectoryStillHasASocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), strings.Repeat("d", 120))
	srv := start(t, Options{Dir: dir})
	if got := query(t, srv.URL("postgres"), "SELECT 'in'"); got != "in" {
		t.Errorf("over the socket: %q", got)
	}
	sockets := srv.sockets
	if err := srv.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(sockets); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket directory %s still exists after Stop (%v)", sockets, err)
	}
}

func TestKillingTheParentTakesTheServerAlong(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux signals a child when its parent dies")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envHelper+"=")
	pid, dir, _ := startHelper(t, cmd)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as asked
	gone(t, pid)
	sweep(filepath.Dir(dir))
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead owner's directory %s survived a sweep (%v)", dir, err)
	}
}

func TestAnOrdinaryUserCanRunIt(t *testing.T) {
	t.Parallel()
	a, err := serverAccount("")
	if err != nil {
		t.Fatal(err)
	}
	if a == nil {
		t.Skip("every other test of this run already is an ordinary user's")
	}
	home := reachableDir(t)
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(home, "localpg.test") // go test's own directory is closed to others
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(home, "own")
	if err := a.own(own); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Dir = own
	cmd.Env = []string{"HOME=" + own, "TMPDIR=" + own, "PATH=" + os.Getenv("PATH"), envHelper + "=" + filepath.Join(own, "pg")}
	cmd.SysProcAttr = a.attr()
	_, _, dsn := startHelper(t, cmd)
	if got := query(t, dsn, "SELECT 'in'"); got != "in" {
		t.Errorf("over the socket: %q", got)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as asked
}

// startHelper starts the helper program and reads what it prints when its server is up.
func startHelper(t *testing.T, cmd *exec.Cmd) (pid int, dir, dsn string) {
	t.Helper()
	if _, err := cmd.StdinPipe(); err != nil { // open until the helper is killed
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the helper said %q: %v", line, err)
	}
	if _, err := fmt.Sscan(line, &pid, &dir, &dsn); err != nil {
		t.Fatalf("the helper said %q: %v", line, err)
	}
	return pid, dir, dsn
}

func TestSharedIsOneServerAProcess(t *testing.T) {
	t.Parallel()
	first, err := Shared(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second, err := Shared(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Errorf("Shared returned %s, then %s", first, second)
	}
	if got := query(t, first, "SELECT 'in'"); got != "in" {
		t.Errorf("the shared server: %q", got)
	}
	if set := os.Getenv(EnvTestURL); set != "" && first != set {
		t.Errorf("Shared returned %s although %s names %s", first, EnvTestURL, set)
	}
}

func TestCancellingAStartLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), "pg")
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	go func() {
		<-begun
		cancel()
	}()
	var once sync.Once
	_, err := Start(ctx, Options{Dir: dir, NoFetch: true, Log: func(format string, _ ...any) {
		if strings.Contains(format, "creating a database cluster") {
			once.Do(func() { close(begun) })
		}
	}})
	if err == nil {
		t.Fatal("a cancelled Start returned a server")
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a cancelled initdb left a cluster that looks complete (%v)", err)
	}
	srv := start(t, Options{Dir: dir}) // takes the directory over
	if got := query(t, srv.URL("postgres"), "SELECT 'in'"); got != "in" {
		t.Errorf("after a cancelled start: %q", got)
	}
}

package localpg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// superuser is the cluster's first role. It exists in no other cluster that
// this package could meet, since nothing else listens on our socket.
const superuser = "postgres"

// startLimit bounds one start of the server, its recovery included.
const startLimit = 2 * time.Minute

// Errors that callers branch on.
var (
	// ErrInUse says that another Server, here or in another process, owns Options.Dir.
	ErrInUse = errors.New("directory is in use by another private PostgreSQL")
	// ErrNotFound says that this machine has no usable server and that none could be obtained.
	ErrNotFound = errors.New("no usable PostgreSQL server on this machine")
	// ErrStopped is returned by calls on a Server whose directory was given up by Stop.
	ErrStopped = errors.New("private PostgreSQL was stopped")
)

// Options says where and how a private server runs. The zero value is a
// throw-away server in a temporary directory, reachable by Unix socket only.
type Options struct {
	// Dir keeps the cluster between runs; it is created when it is missing.
	// Empty means a temporary directory, removed by Stop.
	// As root it must be reachable by the user the server runs as: see [DefaultDir].
	Dir string
	// Log receives one line of progress a step; nil discards them. Steps that take
	// seconds (creating a cluster, obtaining the binaries) are announced before they start.
	Log func(format string, args ...any)
	// Sync flushes to disk (fsync, synchronous_commit, full_page_writes). False is
	// several times faster and loses data when the machine, not only the server, dies.
	Sync bool
	// Port opens a TCP listener on 127.0.0.1, with a password (see TCPURL). 0 opens none.
	Port int
	// MaxConnections is PostgreSQL's max_connections; 0 means 100.
	MaxConnections int
	// NoFetch forbids to obtain missing binaries over the network, as
	// COUNTERSIGN_POSTGRES_FETCH=off does.
	NoFetch bool
}

// Server is a running private PostgreSQL. Its methods may be called from several goroutines.
type Server struct {
	opts     Options
	bin      Binaries
	account  *account // nil: run as ourselves
	home     string   // owns data, the log, the lock
	sockets  string   // directory of the Unix socket
	scratch  []string // removed by Stop
	password string   // of the superuser, over TCP only
	lock     *os.File // held until Stop; see acquireHome

	mu      sync.Mutex
	proc    *process // nil after Stop
	stopped bool
}

// Start finds a server, creates the cluster when Options.Dir has none, starts
// the server and returns when it accepts connections. A failed Start leaves no process and
// no temporary directory behind. Cancelling ctx abandons the start; afterwards
// ctx has no influence on the server.
//
// It returns ErrNotFound with the mend when no server can be had, and ErrInUse
// when Options.Dir has an owner. It may be called any number of times.
func Start(ctx context.Context, opts Options) (_ *Server, err error) {
	if opts.Log == nil {
		opts.Log = func(string, ...any) {}
	}
	s := &Server{opts: opts}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	existing := ""
	if opts.Dir != "" {
		existing = filepath.Join(opts.Dir, "data")
	}
	if s.account, err = serverAccount(existing); err != nil {
		return nil, err
	}
	if err := s.acquireHome(); err != nil {
		return nil, err
	}
	major, err := clusterMajor(s.data())
	if err != nil {
		return nil, err
	}
	if s.bin, err = obtain(ctx, s.account, major, opts); err != nil {
		return nil, err
	}
	opts.Log("postgres: %s from %s", s.bin.Version, s.bin.Dir)
	if err := s.prepareCluster(ctx, major); err != nil {
		return nil, err
	}
	if err := s.launch(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// URL returns the DSN of a database of this server through its Unix socket, as
// the superuser. It does not create the database, and stays valid across Restart.
//
// The DSN names every setting that could send a client elsewhere, so an
// ambient PGHOST or PGPORT changes nothing. PGSERVICE and PGOPTIONS are read by pgx whatever
// a DSN says; pkg/store refuses to start while they are set (RG-450).
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + database}
	u.RawQuery = url.Values{
		"host":                 {s.sockets},
		"port":                 {strconv.Itoa(s.port())},
		"sslmode":              {"disable"},
		"target_session_attrs": {"any"},
	}.Encode()
	return u.String()
}

// TCPURL returns the DSN through 127.0.0.1, with the password that the cluster
// was created with. It is empty when Options.Port is 0.
func (s *Server) TCPURL(database string) string {
	if s.opts.Port == 0 {
		return ""
	}
	u := url.URL{
		Scheme: "postgres",
		User:   url.UserPassword(superuser, s.password),
		Host:   "127.0.0.1:" + strconv.Itoa(s.opts.Port),
		Path:   "/" + database,
	}
	u.RawQuery = url.Values{"sslmode": {"disable"}, "target_session_attrs": {"any"}}.Encode()
	return u.String()
}

// Dir returns the directory that holds the cluster, its log and its socket.
func (s *Server) Dir() string { return s.home }

// Pid returns the process id of the postmaster, or 0 when it does not run.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.exited() {
		return 0
	}
	return s.proc.pid
}

// Restart stops the server when it runs (fast: open transactions are aborted)
// and starts it again on the same cluster and socket. After Kill it is the recovery of a crashed server.
// It may be repeated; after Stop it returns ErrStopped.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	if err := s.halt(ctx, syscall.SIGINT); err != nil {
		return err
	}
	return s.launch(ctx)
}

// Stop ends the server (fast shutdown: sessions are closed, open transactions
// aborted), gives up the directory and removes it when it was temporary. When
// ctx ends first the server is killed, and Stop returns the context's error. A second Stop does nothing.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil
	}
	err := s.halt(ctx, syscall.SIGINT)
	s.stopped = true
	s.release()
	return err
}

// Kill sends SIGKILL to the postmaster and returns when it is gone: what a
// crash test calls. The cluster stays as the crash left it; Restart recovers it, Stop removes it.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	// The only error of a halt is its context's, and this one never ends.
	_ = s.halt(context.Background(), syscall.SIGKILL)
}

// halt signals the postmaster and waits until it is gone. The caller holds mu, or owns s alone.
func (s *Server) halt(ctx context.Context, sig syscall.Signal) error {
	if s.proc == nil {
		return nil
	}
	defer func() { s.proc = nil }()
	s.proc.signal(sig)
	select {
	case <-s.proc.done:
		return nil
	case <-ctx.Done():
		s.proc.signal(syscall.SIGKILL)
		<-s.proc.done
		return fmt.Errorf("stop private PostgreSQL in %s: %w", s.home, ctx.Err())
	}
}

// release gives up everything but the process. It runs once, at the end of Stop or of a failed Start.
func (s *Server) release() {
	for _, dir := range s.scratch {
		_ = os.RemoveAll(dir) // best effort: the next Start sweeps
	}
	if s.lock != nil {
		_ = s.lock.Close() // closing releases the lock
		s.lock = nil
	}
}

func (s *Server) data() string    { return filepath.Join(s.home, "data") }
func (s *Server) logPath() string { return filepath.Join(s.home, "postgres.log") }

// port is part of the socket's file name even when there is no TCP listener.
func (s *Server) port() int {
	if s.opts.Port != 0 {
		return s.opts.Port
	}
	return 5432
}

package localpg

import (
	"context"
	"fmt"
	"os"
	"sync"
)

// EnvTestURL names the administrator's DSN of a server that several test
// processes share. `make test` sets it; see tools/cmd/testpg.
const EnvTestURL = "COUNTERSIGN_TEST_DATABASE_URL"

// TestOptions are the settings of a server for tests: unsynced, and with connections for every package at once.
func TestOptions(log func(format string, args ...any)) Options {
	return Options{Log: log, MaxConnections: 400}
}

// shared is the one server of this process for tests.
var shared struct {
	mu  sync.Mutex
	srv *Server
}

// Shared returns the administrator's DSN of the server that the tests of this
// process use: the one that EnvTestURL names, otherwise one that the first call
// starts (two seconds, once a process). Its databases are the caller's to create and drop.
//
// A server started here ends with the process. StopShared, called from TestMain, removes its directory too;
// without it the next Start does. A machine without PostgreSQL is an error, so that tests fail instead of being skipped.
func Shared(ctx context.Context) (string, error) {
	if dsn := os.Getenv(EnvTestURL); dsn != "" {
		return dsn, nil
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.srv == nil {
		srv, err := Start(ctx, TestOptions(func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }))
		if err != nil {
			return "", fmt.Errorf("start the PostgreSQL of this test process: %w", err)
		}
		shared.srv = srv
	}
	return shared.srv.URL("postgres"), nil
}

// StopShared stops the server that Shared started, if it did. It may be called more than once.
func StopShared(ctx context.Context) error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.srv == nil {
		return nil
	}
	srv := shared.srv
	shared.srv = nil
	return srv.Stop(ctx)
}

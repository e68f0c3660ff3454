// Testpg runs a command beside a private, unsynced PostgreSQL that it names in
// COUNTERSIGN_TEST_DATABASE_URL, so that all test processes of one run share one server.
//
//	testpg -- go test -race ./...
//
// Where the variable is set already, that server is used. The exit status is
// the command's. A machine on which no server can be had is an error: the tests must not be skipped.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/countersign/countersign/pkg/store/localpg"
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: testpg -- command [argument…]")
		os.Exit(2)
	}
	code, err := run(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testpg:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	// The command shares our terminal and gets its own SIGINT; SIGTERM is passed on.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = os.Environ()
	if os.Getenv(localpg.EnvTestURL) == "" {
		srv, err := localpg.Start(ctx, localpg.TestOptions(progress))
		if err != nil {
			return 1, err
		}
		defer func() {
			err = errors.Join(err, srv.Stop(context.Background()))
		}()
		cmd.Env = append(cmd.Env, localpg.EnvTestURL+"="+srv.URL("postgres"))
	}
	runErr := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](runErr); ok {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, runErr
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/internal/system"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge/localnats"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/localpg"
	"github.com/countersign/countersign/services/console"
)

// devOptions are the flags of `countersign dev`.
type devOptions struct {
	demo, once, verbose bool
	listen, webhooks    string
	operator            string
	githubURL           string
	appID               int64
	keyFile, secretFile string
	dataDir, logFile    string
	replicas            int
	stepPatience        time.Duration
}

func newDevCommand() *cobra.Command {
	var o devOptions
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run all five services in this process, with a private Postgres and NATS",
		Long: `Run all five services in this process over an embedded NATS and a private Postgres, against a GitHub of your choice or, with
--demo, against a GitHub stand-in that plays a story.

Postgres: COUNTERSIGN_DATABASE_URL when it is set (its database is migrated; every service uses that one role); otherwise server
binaries found on this machine; otherwise they are fetched, with progress shown.

Every COUNTERSIGN_ variable that a service reads works here too. For production run each service by itself.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runDev(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.BoolVar(&o.demo, "demo", false, "play the story on a GitHub stand-in; needs no GitHub App")
	f.BoolVar(&o.once, "once", false, "with --demo: exit when the story ends, 0 when every step was reached and 1 otherwise")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address of the console, which needs no sign-in here: loopback only")
	f.StringVar(&o.webhooks, "webhook-listen", "127.0.0.1:8081", "address that receives webhooks at /webhooks/github")
	f.StringVar(&o.operator, "operator-listen", "127.0.0.1:9090", "address of health, metrics and pprof")
	f.StringVar(&o.githubURL, "github-url", "", "REST base URL of GitHub or GitHub Enterprise Server (COUNTERSIGN_GITHUB_API_URL)")
	f.Int64Var(&o.appID, "app-id", 0, "the App's id (COUNTERSIGN_GITHUB_APP_ID)")
	f.StringVar(&o.keyFile, "private-key-file", "", "file with the App's private key (COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE)")
	f.StringVar(&o.secretFile, "webhook-secret-file", "", "file with the webhook secret (COUNTERSIGN_WEBHOOK_SECRET_FILE)")
	f.StringVar(&o.dataDir, "data", "", "where the private Postgres keeps its data between runs; empty: a temporary one with --demo, else the user's cache")
	f.StringVar(&o.logFile, "log", "", "write the services' log lines to this file; empty: with --verbose to standard error, else nowhere")
	f.BoolVar(&o.verbose, "verbose", false, "show the services' log lines on standard error")
	f.IntVar(&o.replicas, "replicas", 1, "replicas of every service")
	f.DurationVar(&o.stepPatience, "patience", time.Minute, "with --demo: how long a step may take")
	return c
}

// devRun is one `countersign dev` while it runs.
type devRun struct {
	devOptions
	out      io.Writer
	progress io.Writer
	log      io.Writer
	environ  map[string]string
	cleanup  []func()
	system   *system.System
	reader   *store.Store
}

func runDev(ctx context.Context, o devOptions, out, progress io.Writer) (err error) {
	if o.once && !o.demo {
		return errors.New("--once goes with --demo: add --demo, or leave --once out")
	}
	d := &devRun{devOptions: o, out: out, progress: progress, log: io.Discard, environ: map[string]string{}}
	defer func() {
		for i := len(d.cleanup) - 1; i >= 0; i-- {
			d.cleanup[i]()
		}
	}()
	if err := d.openLog(); err != nil {
		return err
	}
	d.inheritEnviron()
	if host, _, err := net.SplitHostPort(o.listen); err != nil || !loopbackName(host) {
		return fmt.Errorf("--listen %s: the console shows everything without sign-in here, so it listens on a loopback address only, such as 127.0.0.1:8080", printable(o.listen))
	}
	if d.environ["COUNTERSIGN_CONSOLE_URL"] == "" {
		d.environ["COUNTERSIGN_CONSOLE_URL"] = "http://" + o.listen // where the check's details lead
	}
	if o.demo {
		return d.runDemo(ctx)
	}
	if err := d.start(ctx, nil); err != nil {
		return err
	}
	fmt.Fprintf(out, "console    http://%s\nwebhooks   %s/webhooks/github\noperator   http://%s\n", o.listen, d.system.IngressURLs()[0], o.operator)
	return d.serve(ctx, "")
}

func (d *devRun) openLog() error {
	switch {
	case d.logFile != "":
		file, err := os.Create(d.logFile)
		if err != nil {
			return fmt.Errorf("open the log: %w", err)
		}
		d.log = file
		d.cleanup = append(d.cleanup, func() { _ = file.Close() })
	case d.verbose:
		d.log = d.progress
	}
	return nil
}

// inheritEnviron hands every COUNTERSIGN_ variable to the services; flags win.
func (d *devRun) inheritEnviron() {
	for _, kv := range os.Environ() {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "COUNTERSIGN_") {
			d.environ[name] = value
		}
	}
	for _, own := range []string{"COUNTERSIGN_DATABASE_URL", "COUNTERSIGN_DATABASE_URL_FILE", localpg.EnvBin, localpg.EnvTestURL, "COUNTERSIGN_POSTGRES_FETCH"} {
		delete(d.environ, own)
	}
	for name, value := range map[string]string{
		"COUNTERSIGN_GITHUB_API_URL": d.githubURL, "COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE": d.keyFile, "COUNTERSIGN_WEBHOOK_SECRET_FILE": d.secretFile,
	} {
		if value != "" {
			d.environ[name] = value
		}
	}
	if d.appID != 0 {
		d.environ["COUNTERSIGN_GITHUB_APP_ID"] = fmt.Sprint(d.appID)
	}
}

// start brings up Postgres, NATS and every service. listener is ingress's, nil for --webhook-listen.
func (d *devRun) start(ctx context.Context, listener net.Listener) error {
	owner, role, err := d.database(ctx)
	if err != nil {
		return err
	}
	if err := system.Prepare(ctx, owner, true); err != nil {
		return err
	}
	nats, err := localnats.Start(ctx, localnats.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, nats.Close)
	d.environ["COUNTERSIGN_NATS_URL"] = nats.URL()
	if listener == nil {
		if listener, err = net.Listen("tcp", d.webhooks); err != nil {
			return fmt.Errorf("listen for webhooks on %s (--webhook-listen): %w", d.webhooks, err)
		}
	}
	replicas := map[string]int{}
	for _, s := range system.Services {
		replicas[s] = max(d.replicas, 1)
	}
	if d.system, err = system.Start(ctx, system.Options{RoleURL: role, Environ: d.environ, Replicas: replicas, Ingress: listener, Log: d.log}); err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, func() {
		bounded, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := d.system.Stop(bounded); err != nil {
			fmt.Fprintf(d.progress, "stop: %v\n", err)
		}
	})
	if d.reader, err = store.Open(ctx, store.Config{URL: role("countersign_console"), MaxConns: 8, GuardConns: 1, AllowPlaintext: true, ConnectTimeout: 3 * time.Second, PoolTimeout: 2 * time.Second, StatementLimit: 3 * time.Second}); err != nil {
		return err
	}
	d.cleanup = append(d.cleanup, d.reader.Close)
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return d.system.Ready(ready)
}

// database finds or starts Postgres; it returns the URL that migrates and the URL of each role.
func (d *devRun) database(ctx context.Context) (owner string, role func(string) string, err error) {
	if given := os.Getenv("COUNTERSIGN_DATABASE_URL"); given != "" {
		return given, func(string) string { return given }, nil
	}
	dir := d.dataDir
	if dir == "" && !d.demo {
		if dir, err = localpg.DefaultDir("dev"); err != nil {
			return "", nil, err
		}
	}
	server, err := localpg.Start(ctx, localpg.Options{
		Dir: dir, Sync: !d.demo, MaxConnections: 100 + 100*max(d.replicas, 1),
		Log: func(format string, args ...any) { fmt.Fprintf(d.progress, format+"\n", args...) },
	})
	if err != nil {
		return "", nil, err
	}
	d.cleanup = append(d.cleanup, func() {
		bounded, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = server.Stop(bounded)
	})
	owner = server.URL("postgres")
	return owner, func(name string) string {
		u, err := url.Parse(owner)
		if err != nil {
			return owner
		}
		u.User = url.User(name)
		return u.String()
	}, nil
}

// serve shows the page and the operator surface until ctx ends.
func (d *devRun) serve(ctx context.Context, standIn string) error {
	pages, err := net.Listen("tcp", d.listen)
	if err != nil {
		return fmt.Errorf("listen for the page on %s (--listen): %w", d.listen, err)
	}
	operator, err := net.Listen("tcp", d.operator)
	if err != nil {
		return errors.Join(fmt.Errorf("listen for the operator surface on %s (--operator-listen): %w", d.operator, err), pages.Close())
	}
	quiet := slog.New(slog.DiscardHandler)
	pagesConsole, err := console.New(console.Config{
		GitHub: ghclient.WebConfig{APIURL: d.environ["COUNTERSIGN_GITHUB_API_URL"]}, Listen: d.listen, Open: true, AccessAge: time.Minute, Session: time.Hour, MaxLive: 100,
	}, console.Deps{Store: d.reader, StandIn: standIn, LivePause: 200 * time.Millisecond})
	if err != nil {
		return errors.Join(err, pages.Close(), operator.Close())
	}
	defer context.AfterFunc(ctx, pagesConsole.Close)()
	group := make(chan error, 2)
	go func() { group <- daemon.Serve(ctx, operator, d.system.Operator(), quiet, time.Second) }()
	go func() {
		group <- daemon.Serve(ctx, pages, pagesConsole, quiet, time.Second)
	}()
	return errors.Join(<-group, <-group)
}

func randomSecret() (string, error) {
	var b [32]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}

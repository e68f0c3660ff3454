package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/countersign/countersign/internal/demo"
	"github.com/countersign/countersign/internal/system"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge/localnats"
	"github.com/countersign/countersign/pkg/store/localpg"
)

const secret = "a webhook secret of at least 32 bytes"

type options struct {
	prometheus string
	rules      string
	wait       time.Duration
	hold       bool
	command    []string
}

func main() {
	var o options
	flag.StringVar(&o.prometheus, "prometheus", "prometheus", "the Prometheus to run")
	flag.StringVar(&o.rules, "rules", "deploy/prometheus/rules.yml", "the rules it evaluates")
	flag.DurationVar(&o.wait, "wait", 2*time.Minute, "how long to scrape before the command runs, the story included")
	flag.BoolVar(&o.hold, "hold", false, "stay up until interrupted, after the command")
	flag.Parse()
	o.command = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "observe:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "countersign-observe-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	stage, targets, stop, err := start(ctx)
	defer stop()
	if err != nil {
		return err
	}
	address, ended, err := startPrometheus(ctx, o, dir, targets)
	if err != nil {
		return err
	}
	// Prometheus has looked once before anything happens, so that the story is an increase.
	began := time.Now()
	if err := sleep(ctx, 10*time.Second); err != nil {
		return err
	}
	steps := 0
	if err := stage.Play(ctx, func(demo.Result) { steps++ }); err != nil {
		return err
	}
	fmt.Printf("the story of %d steps is over after %s; Prometheus at %s\n", steps, time.Since(began).Round(time.Second), address)
	select {
	case err := <-ended:
		return fmt.Errorf("prometheus ended: %w", err)
	case <-time.After(o.wait - time.Since(began)):
	case <-ctx.Done():
		return ctx.Err()
	}
	err = command(ctx, o.command, address)
	if o.hold && ctx.Err() == nil {
		fmt.Println("end with Ctrl-C")
		<-ctx.Done()
	}
	return err
}

// start runs everything but Prometheus; stop ends what was started. targets are the operator addresses of each service.
func start(ctx context.Context) (stage *demo.Stage, targets map[string][]string, stop func(), err error) {
	var cleanup []func()
	stop = func() {
		for i := len(cleanup) - 1; i >= 0; i-- {
			cleanup[i]()
		}
	}
	postgres, err := localpg.Start(ctx, localpg.Options{MaxConnections: 400, Log: func(string, ...any) {}})
	if err != nil {
		return nil, nil, stop, err
	}
	cleanup = append(cleanup, func() { _ = postgres.Stop(context.WithoutCancel(ctx)) })
	owner := postgres.URL("postgres")
	if err := system.Prepare(ctx, owner, false); err != nil {
		return nil, nil, stop, err
	}
	nats, err := localnats.Start(ctx, localnats.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, stop, err
	}
	cleanup = append(cleanup, nats.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, stop, err
	}
	sim := githubsim.New(githubsim.Options{})
	cleanup = append(cleanup, sim.Close)
	stage = demo.NewStage(sim, githubsim.App{WebhookURL: "http://" + listener.Addr().String() + "/webhooks/github", WebhookSecret: secret}, "Countersign / approval")
	stage.Patience = 3 * time.Minute
	role := func(name string) string {
		u, err := url.Parse(owner)
		if err != nil {
			return owner
		}
		u.User = url.User(name)
		return u.String()
	}
	sys, err := system.Start(ctx, system.Options{
		RoleURL: role, Ingress: listener, Apart: true, Replicas: map[string]int{"ingress": 1, "invalidator": 2, "fanout": 2, "evaluator": 2, "reconciler": 2},
		Environ: map[string]string{
			"COUNTERSIGN_GITHUB_API_URL": sim.URL(), "COUNTERSIGN_GITHUB_APP_ID": fmt.Sprint(stage.World.App.ID), "COUNTERSIGN_GITHUB_PRIVATE_KEY": string(stage.World.App.PEM),
			"COUNTERSIGN_WEBHOOK_SECRET": secret, "COUNTERSIGN_NATS_URL": nats.URL(), "COUNTERSIGN_DATABASE_ALLOW_PLAINTEXT": "true",
			"COUNTERSIGN_RECONCILE_INTERVAL": "60s",
		},
	})
	if err != nil {
		return nil, nil, stop, err
	}
	cleanup = append(cleanup, func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = sys.Stop(bounded)
	})
	ready, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := sys.Ready(ready); err != nil {
		return nil, nil, stop, err
	}
	targets = map[string][]string{}
	for _, r := range sys.Replicas() {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, stop, err
		}
		targets[r.Service()] = append(targets[r.Service()], ln.Addr().String())
		serving, cancel := context.WithCancel(ctx)
		cleanup = append(cleanup, cancel)
		go func() { _ = daemon.Serve(serving, ln, r.Operator(), slog.New(slog.DiscardHandler), time.Second) }()
	}
	return stage, targets, stop, nil
}

// startPrometheus runs Prometheus in dir until ctx ends.
func startPrometheus(ctx context.Context, o options, dir string, targets map[string][]string) (address string, ended <-chan error, err error) {
	rules := filepath.Join(dir, "rules.yml")
	body, err := os.ReadFile(o.rules)
	if err != nil {
		return "", nil, err
	}
	// What is evaluated every five minutes in production is not waited for here.
	if err := os.WriteFile(rules, bytes.ReplaceAll(body, []byte("interval: 5m"), []byte("interval: 15s")), 0o600); err != nil {
		return "", nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "global: {scrape_interval: 5s, scrape_timeout: 4s, evaluation_interval: 5s}\nrule_files: [%q]\nscrape_configs:\n", rules)
	for _, s := range system.Services {
		fmt.Fprintf(&b, "  - job_name: %s\n    static_configs: [{targets: [%s]}]\n", s, strings.Join(targets[s], ", "))
	}
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(b.String()), 0o600); err != nil {
		return "", nil, err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	listen := free.Addr().String()
	_ = free.Close()
	c := exec.CommandContext(ctx, o.prometheus, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen,
		"--enable-feature=exemplar-storage", "--log.level=warn")
	c.Stderr = os.Stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := c.Start(); err != nil {
		return "", nil, fmt.Errorf("start %s: %w (make rules fetches one)", o.prometheus, err)
	}
	result := make(chan error, 1)
	go func() { result <- c.Wait() }()
	address = "http://" + listen
	for deadline := time.Now().Add(time.Minute); ; {
		res, err := http.Get(address + "/-/ready") //nolint:noctx // loopback
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return address, result, nil
			}
		}
		select {
		case err := <-result:
			return "", nil, fmt.Errorf("prometheus ended: %w", err)
		default:
		}
		if time.Now().After(deadline) {
			return "", nil, errors.New("prometheus is not ready after a minute")
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return "", nil, err
		}
	}
}

func command(ctx context.Context, args []string, address string) error {
	if len(args) == 0 {
		return nil
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{url}", address)
	}
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	return c.Run()
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

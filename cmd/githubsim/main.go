// Command githubsim serves the GitHub stand-in with a small example world, for
// rehearsing a policy: see docs/stand-in.md. With --story it also plays the
// demo's story, for a Countersign in containers: see deploy/compose.yaml.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/githubsim"
)

type options struct {
	listen, webhookURL, secret, key, enterprise string
	secretFile, appKeyFile                      string
	publicURL, tlsCert, tlsKey                  string
	appID                                       int64
	demoPull                                    bool
	story                                       storyOptions
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "healthcheck" {
		os.Exit(healthcheck(ctx, os.Args[2:]))
	}
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "githubsim:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("githubsim", flag.ContinueOnError)
	f.StringVar(&o.listen, "listen", "127.0.0.1:8790", "address to serve on")
	f.StringVar(&o.webhookURL, "webhook-url", "", "where webhooks are sent, such as http://127.0.0.1:8080/webhooks/github; empty: none")
	f.StringVar(&o.secret, "secret", "rehearsal-secret-of-32-bytes-or-more", "secret that webhooks are signed with")
	f.StringVar(&o.key, "key", "", "file to write the App's private key to; empty: app.pem in a new temporary directory")
	f.Int64Var(&o.appID, "app-id", 4242, "id of the App")
	f.StringVar(&o.enterprise, "enterprise", "", "version of GitHub Enterprise Server to pretend to be, such as 3.17.2; empty: github.com")
	f.StringVar(&o.secretFile, "secret-file", "", "file with the secret, instead of --secret")
	f.StringVar(&o.appKeyFile, "app-key-file", "", "file with the App's private key in PEM; empty: a new one is made, and written to --key")
	f.StringVar(&o.publicURL, "public-url", "", "root of the URLs in answers, such as https://github:8790; empty: the address served on")
	f.StringVar(&o.tlsCert, "tls-cert", "", "certificate in PEM: serve HTTPS, which any but a loopback address needs; with --tls-key and --public-url")
	f.StringVar(&o.tlsKey, "tls-key", "", "its key in PEM")
	o.story.add(f)
	f.BoolVar(&o.demoPull, "pull", true, "open a pull request to begin with")
	return o, f.Parse(args)
}

// run serves until the context ends. The key file is written before anything is
// printed, so that whoever reads the output finds it.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	app, err := o.app()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	so := githubsim.Options{Listen: o.listen, PublicURL: o.publicURL, Enterprise: o.enterprise, Log: log}
	if o.story.play {
		// Beside a database that outlives the stand-in: a world of its own at every start. GraphQL's integers have 32 bits.
		so.FirstID = 10_000 + 2_000*(time.Now().Unix()%1_000_000)
	}
	if o.tlsCert != "" {
		if o.publicURL == "" {
			return errors.New("--tls-cert without --public-url: give the https URL that the certificate is for")
		}
		so.Listen = "-" // served here, with TLS
	}
	sim := githubsim.New(so)
	defer sim.Close()
	if o.tlsCert != "" {
		stop, err := serveTLS(ctx, o, sim.Handler(), log)
		if err != nil {
			return err
		}
		defer stop()
	}
	if o.story.play {
		return runStory(ctx, sim, app, o, out)
	}
	e := githubsim.AddExample(sim, githubsim.ExampleOptions{App: app})
	if err := writeKey(&o, e.App.PEM); err != nil {
		return err
	}
	if o.demoPull {
		files := map[string]string{"src/main.go": "package main\n\nfunc main() { println(\"hello\") }\n", "docs/index.md": "# Widgets\n\nHello.\n"}
		if _, err := sim.OpenPull(e.Repository, githubsim.Pull{Author: "dave", Title: "Say hello", Files: files}); err != nil {
			return fmt.Errorf("open the first pull request: %w", err)
		}
	}
	describe(out, sim, e, o)
	<-ctx.Done()
	return nil
}

// app is Countersign's App as the flags describe it.
func (o *options) app() (githubsim.App, error) {
	if o.secretFile != "" {
		text, err := os.ReadFile(o.secretFile)
		if err != nil {
			return githubsim.App{}, fmt.Errorf("read the secret: %w", err)
		}
		o.secret = strings.TrimSpace(string(text))
	}
	app := githubsim.App{ID: o.appID, WebhookURL: o.webhookURL, WebhookSecret: o.secret}
	if o.appKeyFile != "" {
		text, err := os.ReadFile(o.appKeyFile)
		if err != nil {
			return githubsim.App{}, fmt.Errorf("read the App's key: %w", err)
		}
		if app.PrivateKey, err = jwt.ParseRSAPrivateKeyFromPEM(text); err != nil {
			return githubsim.App{}, fmt.Errorf("the App's key in %s: %w", o.appKeyFile, err)
		}
	}
	return app, nil
}

// writeKey leaves the App's key where Countersign can be given it, unless it was given.
func writeKey(o *options, text []byte) error {
	if o.appKeyFile != "" {
		o.key = o.appKeyFile
		return nil
	}
	if o.key == "" {
		dir, err := os.MkdirTemp("", "githubsim-")
		if err != nil {
			return fmt.Errorf("make a directory for the key: %w", err)
		}
		o.key = filepath.Join(dir, "app.pem")
	}
	if err := os.WriteFile(o.key, text, 0o600); err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	return nil
}

// serveTLS serves handler with the certificate until stop is called.
func serveTLS(ctx context.Context, o options, handler http.Handler, log *slog.Logger) (stop func(), err error) {
	certificate, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	ln, err := daemon.Listen(ctx, o.listen)
	if err != nil {
		return nil, err
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		secure := tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
		if err := daemon.Serve(serving, secure, handler, log, time.Second); err != nil {
			log.Error("stand-in stopped serving", "err", err)
		}
	}()
	return func() { cancel(); <-done }, nil
}

func describe(out io.Writer, sim *githubsim.Sim, e githubsim.Example, o options) {
	p := func(format string, a ...any) { _, _ = fmt.Fprintf(out, format+"\n", a...) }
	p("GitHub stand-in on %s (a page to look at, and the API)", sim.URL())
	root := "/"
	if o.enterprise != "" {
		root = "/api/v3/"
	}
	p("  COUNTERSIGN_GITHUB_API_URL=%s%s", sim.URL(), root)
	p("  COUNTERSIGN_GITHUB_APP_ID=%d", e.App.ID)
	p("  COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE=%s", o.key)
	if o.secretFile != "" {
		p("  COUNTERSIGN_WEBHOOK_SECRET_FILE=%s", o.secretFile)
	} else {
		p("  COUNTERSIGN_WEBHOOK_SECRET=%s", o.secret)
	}
	p("repository %s, installation %d", e.Repository, e.Installation)
	p("tokens to act with, as people do on GitHub:")
	logins := make([]string, 0, len(e.Tokens))
	for login := range e.Tokens {
		logins = append(logins, login)
	}
	slices.Sort(logins)
	for _, login := range logins {
		p("  %s %s", login, e.Tokens[login])
	}
	p("approve: curl -s -X POST -H 'Authorization: Bearer %s' %s/repos/%s/pulls/1/reviews -d '{\"event\":\"APPROVE\"}'", e.Tokens["alice"], sim.URL(), e.Repository)
}

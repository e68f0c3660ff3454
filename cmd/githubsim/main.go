// Command githubsim serves the GitHub stand-in with a small example world, for
// rehearsing a policy: see docs/stand-in.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/countersign/countersign/pkg/githubsim"
)

type options struct {
	listen, webhookURL, secret, key, enterprise string
	appID                                       int64
	demoPull                                    bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
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
	sim := githubsim.New(githubsim.Options{Listen: o.listen, Enterprise: o.enterprise, Log: slog.New(slog.NewJSONHandler(os.Stderr, nil))})
	defer sim.Close()
	e := githubsim.AddExample(sim, githubsim.ExampleOptions{App: githubsim.App{ID: o.appID, WebhookURL: o.webhookURL, WebhookSecret: o.secret}})
	if o.key == "" {
		dir, err := os.MkdirTemp("", "githubsim-")
		if err != nil {
			return fmt.Errorf("make a directory for the key: %w", err)
		}
		o.key = filepath.Join(dir, "app.pem")
	}
	if err := os.WriteFile(o.key, e.App.PEM, 0o600); err != nil {
		return fmt.Errorf("write the key: %w", err)
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
	p("  COUNTERSIGN_WEBHOOK_SECRET=%s", o.secret)
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

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/internal/setup"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
)

type setupOptions struct {
	org, name, webhook, console string
	apiURL, out, listen         string
	breakGlass                  bool
	wait                        time.Duration
	doctor                      doctorOptions
}

func newSetupCommand() *cobra.Command {
	var o setupOptions
	c := &cobra.Command{
		Use:   "setup",
		Short: "Register the GitHub App in the browser, store its credentials, and check everything",
		Long: `Register a GitHub App of your own by GitHub's manifest flow. A page on this
machine shows what will be registered and sends you to GitHub; you confirm there,
and come back. The credentials go to new files of mode 0600 in the folder --out;
nothing that exists is overwritten. Then install the App on your organization:
the command waits for that (--wait), and ends by "countersign doctor".

On a machine without a browser, forward the port of --listen over SSH and open the
printed address on your own.

Exit codes: 0 registered and nothing failed, 1 doctor found something, 2 not registered.`,
		Example: `  countersign setup --org acme --webhook https://countersign.example/webhooks/github`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return runSetup(c, o, os.Environ()) },
	}
	f := c.Flags()
	f.StringVar(&o.org, "org", "", "organization that is to own the App; empty: your own account")
	f.StringVar(&o.name, "name", "Countersign", "name of the App; GitHub has each once")
	f.StringVar(&o.webhook, "webhook", "", "where GitHub reaches ingress, ending in /webhooks/github")
	f.StringVar(&o.console, "console-url", "", "base URL of the console, for its sign-in")
	f.StringVar(&o.apiURL, "github-url", "", "REST base URL (default: COUNTERSIGN_GITHUB_API_URL, else https://api.github.com/)")
	f.StringVar(&o.out, "out", "countersign-credentials", "folder for the credentials; made if missing")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8088", "address of the page; loopback only")
	f.BoolVar(&o.breakGlass, "break-glass", false, "also subscribe to comments, for break-glass")
	f.DurationVar(&o.wait, "wait", 10*time.Minute, "how long to wait for the App to be installed; 0: not at all")
	f.BoolVar(&o.doctor.json, "json", false, "print doctor's lines as one JSON object each")
	f.IntVar(&o.doctor.repositories, "repositories", 200, "how many repositories doctor looks at")
	return c
}

func runSetup(c *cobra.Command, o setupOptions, environ []string) error {
	for _, kv := range environ {
		if value, given := strings.CutPrefix(kv, "COUNTERSIGN_GITHUB_API_URL="); given && o.apiURL == "" {
			o.apiURL = value
		}
	}
	made, err := register(c, o)
	if err != nil {
		return err
	}
	progress := c.ErrOrStderr()
	fmt.Fprintf(progress, "Registered %s (App %d); its credentials are in %s.\n", printable(made.Slug), made.ID, o.out)
	for _, lack := range setup.Lacks(made, o.breakGlass) {
		fmt.Fprintf(progress, "GitHub registered it without %s.\n", lack)
	}
	stored, err := setup.Settings(o.out)
	if err != nil {
		return err
	}
	environ = withStored(environ, stored)
	if err := awaitInstallation(c.Context(), progress, o, made, environ); err != nil {
		return err
	}
	return runDoctor(c, o.doctor, environ)
}

// withStored puts the stored settings over the environment's; of a setting and its _FILE form only the stored one stays.
func withStored(environ, stored []string) []string {
	given := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		given[name] = value
	}
	for _, kv := range stored {
		name, value, _ := strings.Cut(kv, "=")
		delete(given, strings.TrimSuffix(name, "_FILE"))
		delete(given, strings.TrimSuffix(name, "_FILE")+"_FILE")
		given[name] = value
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		list = append(list, name+"="+given[name])
	}
	return list
}

// register serves the page until an App is registered and stored.
func register(c *cobra.Command, o setupOptions) (ghclient.AppCredentials, error) {
	listener, err := listenLoopback(o.listen)
	if err != nil {
		return ghclient.AppCredentials{}, err
	}
	folder, err := setup.Reserve(o.out)
	if err != nil {
		return ghclient.AppCredentials{}, errors.Join(err, listener.Close())
	}
	defer folder.Release()
	done := make(chan ghclient.AppCredentials, 1)
	handler, err := setup.New(setup.Options{
		Enabled: true, GitHub: ghclient.Config{APIURL: o.apiURL}, Path: "/setup", BaseURL: "http://" + listener.Addr().String(), ConsoleURL: o.console,
		Org: o.org, Name: o.name, Webhook: o.webhook, BreakGlass: o.breakGlass,
		Store: func(made ghclient.AppCredentials) (string, error) {
			if err := folder.Fill(made, o.apiURL); err != nil {
				return "", err
			}
			done <- made
			return o.out, nil
		},
	})
	if err != nil {
		return ghclient.AppCredentials{}, errors.Join(err, listener.Close())
	}
	ctx, stop := context.WithCancel(c.Context())
	served := make(chan error, 1)
	go func() { served <- daemon.Serve(ctx, listener, handler, slog.New(slog.DiscardHandler), time.Second) }()
	fmt.Fprintf(c.ErrOrStderr(), "Open http://%s/setup in a browser. End with Ctrl-C.\n", listener.Addr())
	select {
	case made := <-done:
		stop() // the answer in flight is finished within Serve's grace
		return made, <-served
	case err := <-served:
		stop()
		if err == nil {
			err = errors.New("ended before an App was registered")
		}
		return ghclient.AppCredentials{}, err
	}
}

func listenLoopback(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("--listen %s: the page hands out credentials, so it listens on a loopback address only, such as 127.0.0.1:8088", printable(address))
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for the page on %s (--listen): %w", address, err)
	}
	return listener, nil
}

// awaitInstallation waits until the App is installed somewhere. That it is not within the time is no error: doctor says so.
func awaitInstallation(ctx context.Context, progress io.Writer, o setupOptions, made ghclient.AppCredentials, environ []string) error {
	if o.wait <= 0 {
		return nil
	}
	cfg, err := settings[liveConfig](environ)
	if err != nil {
		return err
	}
	app, err := ghclient.NewApp(cfg.GitHub, ghclient.Options{})
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "Install it: %s/installations/new\nWaiting for that for up to %s.\n", printable(made.HTMLURL), o.wait)
	bounded, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	for {
		list, err := app.Installations(bounded)
		switch {
		case err == nil && len(list) > 0:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case bounded.Err() != nil:
			return nil
		}
		select {
		case <-bounded.Done():
		case <-time.After(2 * time.Second):
		}
	}
}

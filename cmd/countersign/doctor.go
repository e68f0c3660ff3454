package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/internal/system"
	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

// Outcomes of one check.
const (
	doctorOK   = "ok"
	doctorWarn = "warn"
	doctorFail = "fail"
)

// doctorLine is one line of "countersign doctor --json".
type doctorLine struct {
	Result string `json:"result"`
	Check  string `json:"check"`
	// Says is what was found, Mend what to do about it.
	Says string `json:"says"`
	Mend string `json:"mend,omitempty"`
}

type doctorOptions struct {
	json         bool
	repositories int
	live         liveProbeOptions
}

func newDoctorCommand() *cobra.Command {
	var o doctorOptions
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check that this installation can work: database, NATS, GitHub, permissions, clock",
		Long: `Check, with the settings of a service in the environment, what Countersign needs:
the database and its schema, NATS, the App's identity, permissions and events,
the server's version, the clock, whether webhooks arrive (by GitHub's own log of
them), and of every repository of every installation its policy file and whether
its default branch requires the check, from this App and no other. Nothing is
written.

With --live, ask the configured GitHub how it behaves where its documentation is
silent. That WRITES: check runs named "Countersign / probe" on the head of the
pull request that --pull names, in the repository that --repository names; they
are completed as neutral at the end. Use a disposable repository. Where runs of
that name exist, nothing is written unless --yes is given. The check must not be
required by a ruleset.

Exit codes: 0 fine (warnings included), 1 something failed, 2 could not check.`,
		Example: `  countersign doctor
  countersign doctor --live --repository acme/sandbox --installation 1234 --pull 1`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.live.on {
				return runLiveProbe(c, o)
			}
			return runDoctor(c, o, os.Environ())
		},
	}
	f := c.Flags()
	f.BoolVar(&o.json, "json", false, "print one JSON object a line")
	f.IntVar(&o.repositories, "repositories", 200, "how many repositories are looked at, over all installations; 0: none")
	o.live.flags(f)
	return c
}

func runDoctor(c *cobra.Command, o doctorOptions, environ []string) error {
	out := newPrinter(c.OutOrStdout(), o.json)
	failed := false
	for _, l := range examine(c.Context(), environ, o.repositories) {
		failed = failed || l.Result == doctorFail
		text := fmt.Sprintf("%-4s  %s: %s", l.Result, l.Check, printableText(l.Says))
		if l.Mend != "" {
			text += "; " + printableText(l.Mend)
		}
		if err := out.print(text, l); err != nil {
			return err
		}
	}
	return out.finish(failed)
}

// doctorBound is how long one check may take; repositoriesBound is for all of them together.
const (
	doctorBound       = 15 * time.Second
	repositoriesBound = 5 * time.Minute
)

// examine makes every check; a new one adds a line here. repositories bounds how many are looked at.
func examine(ctx context.Context, environ []string, repositories int) []doctorLine {
	lines := bound(ctx, doctorBound, func(ctx context.Context) []doctorLine { return checkDatabase(ctx, environ) })
	lines = append(lines, bound(ctx, doctorBound, func(ctx context.Context) []doctorLine { return checkNATS(ctx, environ) })...)
	var gh doctorGitHub
	lines = append(lines, bound(ctx, doctorBound, func(ctx context.Context) (found []doctorLine) { gh, found = checkGitHub(ctx, environ); return found })...)
	if gh.app == nil {
		return lines
	}
	lines = append(lines, bound(ctx, doctorBound, gh.webhookLines)...)
	return append(lines, bound(ctx, repositoriesBound, func(ctx context.Context) []doctorLine { return gh.repositoryLines(ctx, repositories) })...)
}

func bound(ctx context.Context, d time.Duration, check func(context.Context) []doctorLine) []doctorLine {
	bounded, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return check(bounded)
}

// settings reads one part's settings, whatever else a service has in its environment.
func settings[C any](environ []string) (C, error) {
	return daemon.LoadWith[C](daemon.LoadOptions{Known: system.Known()}, nil, environ)
}

func fail(check string, err error, mend string) []doctorLine {
	return []doctorLine{{Result: doctorFail, Check: check, Says: err.Error(), Mend: mend}}
}

func checkDatabase(ctx context.Context, environ []string) []doctorLine {
	cfg, err := settings[struct{ Store store.Config }](environ)
	if err != nil {
		return fail("database", err, "")
	}
	s, err := store.Open(ctx, cfg.Store) // compares the schema's version and fingerprint
	if err != nil {
		return fail("database", err, "see countersign database check")
	}
	defer s.Close()
	if err := s.Ping(ctx); err != nil {
		return fail("database", err, "")
	}
	return []doctorLine{{Result: doctorOK, Check: "database", Says: "reachable, and its schema is this version's"}}
}

func checkNATS(ctx context.Context, environ []string) []doctorLine {
	cfg, err := settings[struct{ Nudge nudge.Config }](environ)
	if err != nil {
		return fail("nats", err, "")
	}
	if cfg.Nudge.URL == "" {
		return []doctorLine{{Result: doctorWarn, Check: "nats", Says: "not configured: everything works, slower, and there is no fast path", Mend: "set COUNTERSIGN_NATS_URL"}}
	}
	bus, err := nudge.Connect(ctx, cfg.Nudge, nudge.Options{Name: "doctor"})
	if err != nil {
		return fail("nats", err, "")
	}
	defer bus.Close()
	for bus.Check(ctx) != nil { // the connection is made behind our back
		select {
		case <-ctx.Done():
			return []doctorLine{{Result: doctorWarn, Check: "nats", Says: "not reachable: everything works, slower, and there is no fast path", Mend: "look at the server, COUNTERSIGN_NATS_URL and this user's credentials"}}
		case <-time.After(50 * time.Millisecond):
		}
	}
	return []doctorLine{{Result: doctorOK, Check: "nats", Says: "reachable"}}
}

// maxSkew is above what any clock that is kept shows; a token is refused from a minute on.
const maxSkew = 30 * time.Second

// doctorGitHub is what the checks of GitHub share, once GitHub is reached as the App.
type doctorGitHub struct {
	app           *ghclient.App // nil: not reached
	config        ghclient.Config
	checkName     string
	identity      ghclient.AppIdentity
	installations []ghclient.Installation
}

// doctorConfig is the App's credentials and the name of its check.
type doctorConfig struct {
	GitHub ghclient.Config
	Check  checkrun.Config
}

func checkGitHub(ctx context.Context, environ []string) (doctorGitHub, []doctorLine) {
	cfg, err := settings[doctorConfig](environ)
	if err != nil {
		return doctorGitHub{}, fail("github settings", err, "")
	}
	app, err := ghclient.NewApp(cfg.GitHub, ghclient.Options{})
	if err != nil {
		return doctorGitHub{}, fail("github settings", err, "")
	}
	lines := []doctorLine{{Result: doctorOK, Check: "github settings", Says: "usable"}}
	server, err := app.Server(ctx)
	if err != nil {
		return doctorGitHub{}, append(lines, fail("github server", err, "look at COUNTERSIGN_GITHUB_API_URL, the network and a proxy in between")...)
	}
	lines = append(lines, serverLines(server, cfg.GitHub.APIVersion)...)
	id, err := app.Identity(ctx)
	if err != nil {
		return doctorGitHub{}, append(lines, fail("github app", err, "App id and key have to be of one App, and the clock right")...)
	}
	lines = append(lines, doctorLine{Result: doctorOK, Check: "github app", Says: fmt.Sprintf("%s (%d)", id.Slug, id.ID)})
	lines = append(lines, permissionLines(id)...)
	list, err := app.Installations(ctx)
	if err != nil {
		lines = append(lines, fail("github installations", err, "")...)
	} else {
		lines = append(lines, installationLines(id, list)...)
	}
	return doctorGitHub{app: app, config: cfg.GitHub, checkName: cfg.Check.Name, identity: id, installations: list}, lines
}

func serverLines(server ghclient.Server, version string) []doctorLine {
	about := doctorLine{Result: doctorOK, Check: "github server", Says: "serves REST API version " + version}
	if doubts := server.Doubts(); doubts != "" {
		about = doctorLine{Result: doctorWarn, Check: "github server", Says: doubts}
	}
	if err := server.Refuses(version); err != nil {
		about = doctorLine{Result: doctorFail, Check: "github server", Says: err.Error()}
	}
	clock := doctorLine{Result: doctorOK, Check: "clock", Says: fmt.Sprintf("within %s of GitHub's", max(time.Second, server.Skew.Abs()).Round(time.Second))}
	switch {
	case server.Date.IsZero():
		clock = doctorLine{Result: doctorWarn, Check: "clock", Says: "GitHub's answer has no date to compare with"}
	case server.Skew.Abs() > maxSkew:
		clock = doctorLine{Result: doctorFail, Check: "clock", Says: fmt.Sprintf("%s off GitHub's", server.Skew.Round(time.Second)), Mend: "keep it with NTP: GitHub refuses the App's statements from about a minute on"}
	}
	return []doctorLine{about, clock}
}

// permissionLines compares what the App asks for with what the services ask for together, and its events with those they understand.
func permissionLines(id ghclient.AppIdentity) []doctorLine {
	var lines []doctorLine
	missing := lacking(id.Permissions, ghclient.EvaluatorPermissions)
	if len(missing) > 0 {
		lines = append(lines, doctorLine{Result: doctorFail, Check: "permissions", Says: "the App does not ask for " + strings.Join(missing, ", "), Mend: "add them on the App's settings page; each installation has to accept them"})
	} else {
		lines = append(lines, doctorLine{Result: doctorOK, Check: "permissions", Says: "the App asks for all that is needed"})
	}
	if len(lacking(id.Permissions, ghclient.Permissions{"merge_queues": "read"})) > 0 {
		lines = append(lines, doctorLine{Result: doctorWarn, Check: "permissions", Says: "without merge_queues:read no merge_group event arrives, and merge queues are not evaluated", Mend: "add Merge queues: read, then the event Merge groups"})
	}
	var unsubscribed []string
	for _, e := range ghclient.NeededEvents() {
		if !slices.Contains(id.Events, e) {
			unsubscribed = append(unsubscribed, e)
		}
	}
	if len(unsubscribed) > 0 {
		lines = append(lines, doctorLine{Result: doctorFail, Check: "events", Says: "the App is not subscribed to " + strings.Join(unsubscribed, ", ") + ": such changes are seen by the reconciler only, late", Mend: "subscribe on the App's settings page"})
	} else {
		lines = append(lines, doctorLine{Result: doctorOK, Check: "events", Says: "subscribed to all that is needed"})
	}
	for _, e := range slices.Sorted(maps.Keys(ghclient.WantedEvents())) {
		if !slices.Contains(id.Events, e) {
			lines = append(lines, doctorLine{Result: doctorWarn, Check: "events", Says: "not subscribed to " + e + ": " + ghclient.WantedEvents()[e], Mend: "subscribe on the App's settings page if you use that"})
		}
	}
	return lines
}

// lacking lists, as name:level, what have does not cover of need.
func lacking(have map[string]string, need ghclient.Permissions) []string {
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(need)) {
		if got := have[name]; got != need[name] && got != "write" && got != "admin" {
			missing = append(missing, name+":"+need[name])
		}
	}
	return missing
}

func installationLines(id ghclient.AppIdentity, list []ghclient.Installation) []doctorLine {
	if len(list) == 0 {
		return []doctorLine{{Result: doctorWarn, Check: "installations", Says: "the App is installed nowhere", Mend: "install it from the App's page"}}
	}
	var lines []doctorLine
	for _, i := range list {
		need := maps.Clone(ghclient.EvaluatorPermissions)
		if i.AccountType != "Organization" {
			delete(need, "members")
		}
		name := fmt.Sprintf("installation %d (%s)", i.ID, i.AccountLogin)
		missing := lacking(i.Permissions, need)
		switch {
		case i.SuspendedAt != nil:
			lines = append(lines, doctorLine{Result: doctorWarn, Check: name, Says: "suspended: its work is parked until it returns"})
		case len(missing) > 0:
			lines = append(lines, doctorLine{Result: doctorFail, Check: name, Says: "has not granted " + strings.Join(missing, ", "), Mend: "an owner of the account accepts the App's permissions on the installation's page"})
		case len(lacking(i.Permissions, id.Permissions)) > 0:
			lines = append(lines, doctorLine{Result: doctorWarn, Check: name, Says: "has not accepted all that the App asks for: " + strings.Join(lacking(i.Permissions, id.Permissions), ", "), Mend: "an owner of the account accepts it on the installation's page"})
		default:
			lines = append(lines, doctorLine{Result: doctorOK, Check: name, Says: "has granted all that is needed"})
		}
	}
	return lines
}

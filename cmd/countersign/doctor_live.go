package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/countersign/countersign/internal/probe"
	"github.com/countersign/countersign/pkg/ghclient"
)

type liveProbeOptions struct {
	on, baseMoved, yes bool
	repository, team   string
	installation       int64
	pull, forkPull     int
}

func (o *liveProbeOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.on, "live", false, "ask GitHub how it behaves; writes check runs, see above")
	f.StringVar(&o.repository, "repository", "", "owner/name of a disposable repository, for --live")
	f.Int64Var(&o.installation, "installation", 0, "the App's installation id on it, for --live")
	f.IntVar(&o.pull, "pull", 0, "a pull request of it, for --live: the runs are made on its head")
	f.BoolVar(&o.baseMoved, "base-moved", false, "its base branch was pushed to after its own last push")
	f.IntVar(&o.forkPull, "fork-pull", 0, "a pull request from a fork, to ask how those are listed")
	f.StringVar(&o.team, "secret-team", "", "slug of a secret team, to ask whether it is shown")
	f.BoolVar(&o.yes, "yes", false, "go on although runs of the probe's name exist on that head")
}

func runLiveProbe(c *cobra.Command, o doctorOptions) error {
	repo, ok := ghclient.RepoFromFullName(0, o.live.repository)
	if !ok || o.live.installation <= 0 || o.live.pull <= 0 {
		return errors.New("--live writes, so it has to be told where: give --repository owner/name, --installation ID and --pull NUMBER of a disposable repository")
	}
	cfg, err := settings[liveConfig](githubSettings(os.Environ()))
	if err != nil {
		return err
	}
	app, err := ghclient.NewApp(cfg.GitHub, ghclient.Options{})
	if err != nil {
		return err
	}
	client := app.Client(o.live.installation, ghclient.EvaluatorPermissions)
	about, err := client.Repository(c.Context(), repo)
	if err != nil {
		return err
	}
	options := probe.Options{
		Repo: about.Repo, Pull: o.live.pull, BaseMoved: o.live.baseMoved, SecretTeam: o.live.team, ForkPull: o.live.forkPull, InUse: o.live.yes,
	}
	results, err := probe.Run(c.Context(), client, options)
	if errors.Is(err, probe.ErrInUse) {
		return fmt.Errorf("%w: nothing was written; give --yes if no ruleset requires it", err)
	}
	if err != nil {
		return err
	}
	return printProbe(c, o.json, results)
}

func printProbe(c *cobra.Command, asJSON bool, results []probe.Result) error {
	out := newPrinter(c.OutOrStdout(), asJSON)
	failed := false
	for _, r := range results {
		failed = failed || r.Failed
		text := fmt.Sprintf("%s = %s  (%s)", r.Switch, r.Position, r.Question)
		switch {
		case r.Failed:
			text = fmt.Sprintf("%s: failed: %s  (%s)", r.Switch, printableText(r.Reason), r.Question)
		case r.Position == "":
			text = fmt.Sprintf("%s: not probed: %s  (%s)", r.Switch, r.Reason, r.Question)
		}
		if err := out.print(text, r); err != nil {
			return err
		}
	}
	return out.finish(failed)
}

package main

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/internal/staging"
)

func newSecretsCommand() *cobra.Command {
	var o staging.Options
	c := &cobra.Command{
		Use:   "secrets",
		Short: "Make the secrets of a Countersign in containers, and hand each container its own",
		Long: `Make the secrets of a Countersign that runs in containers on one host (deploy/compose.yaml), and hand each container its own.

Database passwords and NATS keys are made once and kept. The App's private key and the webhook secret are taken from --given
(` + staging.GivenKey + `, ` + staging.GivenSecret + `, and while a secret is rotated ` + staging.GivenPrevious + `; for a GitHub Enterprise Server
with an authority of its own ` + staging.GivenCA + `). Where COUNTERSIGN_GITHUB_API_URL names the stand-in, whose container is called
"` + staging.StandInHost + `", they are made too. It may run again at any time: what a given file says then is handed out anew.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.StandIn = namesStandIn(os.Getenv("COUNTERSIGN_GITHUB_API_URL"))
			if err := staging.Make(o); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "secrets of %s are in place\n", strings.Join(staging.Holders(), ", "))
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.Given, "given", "/given", "directory with the operator's own files")
	f.StringVar(&o.Kept, "kept", "/secrets/kept", "directory that keeps what is made")
	f.StringVar(&o.Out, "out", "/secrets/of", "directory with a directory for each container")
	f.IntVar(&o.Owner, "owner", 0, "user and group id that own the files; 0: whoever runs this")
	return c
}

// namesStandIn tells whether the API URL is that of the stand-in's container.
func namesStandIn(apiURL string) bool {
	u, err := url.Parse(apiURL)
	return err == nil && u.Hostname() == staging.StandInHost
}

// Command countersign is the operator's and the policy author's tool.
//
// Exit codes: 0 fine, 1 findings (something was checked and is not fine),
// 2 the command could not do what was asked (usage, unreadable input).
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// commands are the constructors of every subcommand, in the order in which
// help shows them. A new command adds one line here and its own file.
var commands = []func() *cobra.Command{
	newPolicyCommand,
	newEvaluateCommand,
	newDevCommand,
	newDatabaseCommand,
	newSecretsCommand,
	newQueueCommand,
	newExplainCommand,
	newWhyCommand,
	newDecisionsCommand,
	newSimulateCommand,
	newReevaluateCommand,
	newRedeliverCommand,
	newPauseCommand,
	newResumeCommand,
	newRetentionCommand,
	newManCommand,
	newOwnersCommand,
	newDoctorCommand,
	newSetupCommand,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes one invocation and returns its exit code; tests call it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintf(stderr, "countersign: %s\n", printableLines(err.Error()))
	}
	return exitCode(err)
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "countersign",
		Short:         "Who must approve a pull request, who did, and why",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, newCommand := range commands {
		root.AddCommand(newCommand())
	}
	return root
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/countersign/countersign/pkg/daemon"
)

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write a manual page of every command", Hidden: true,
		Long:    `Write a manual page of every command into a directory that exists, for packagers: countersign.1, countersign-explain.1 and so on.`,
		Example: `  countersign man build/man`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			n := 0
			err := eachCommand(c.Root(), func(command *cobra.Command) error {
				n++
				name := strings.ReplaceAll(command.CommandPath(), " ", "-") + ".1"
				return os.WriteFile(filepath.Join(args[0], name), []byte(manPage(command)), 0o644) //nolint:gosec // manual pages are for everybody
			})
			if err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d manual pages in %s\n", n, printable(args[0]))
			return err
		},
	}
}

// eachCommand visits a command and those below it that people see, in the order of help.
func eachCommand(c *cobra.Command, visit func(*cobra.Command) error) error {
	if err := visit(c); err != nil {
		return err
	}
	for _, below := range c.Commands() {
		if below.Hidden || below.Name() == "help" || below.Name() == "completion" {
			continue
		}
		if err := eachCommand(below, visit); err != nil {
			return err
		}
	}
	return nil
}

// manPage is one command's page; the same for the same command and version.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	title := strings.ToUpper(strings.ReplaceAll(c.CommandPath(), " ", "-"))
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"countersign %s\" \"Countersign\"\n.nh\n", roff(title), roff(daemon.CurrentVersion().Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(strings.ReplaceAll(c.CommandPath(), " ", "-")), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", paragraphs(describe(c)))
	var flags strings.Builder
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		fmt.Fprintf(&flags, ".TP\n.B %s\n%s\n", roff(flagForm(f)), roff(f.Usage))
	})
	if flags.Len() > 0 {
		b.WriteString(".SH OPTIONS\n" + flags.String())
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	var below []string
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" {
			below = append(below, fmt.Sprintf(".BR %s (1)", roff(strings.ReplaceAll(sub.CommandPath(), " ", "-"))))
		}
	}
	if len(below) > 0 {
		b.WriteString(".SH SEE ALSO\n" + strings.Join(below, "\n") + "\n")
	}
	return b.String()
}

func describe(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

// flagForm is a flag as it is written: --limit N, or -z, --null.
func flagForm(f *pflag.Flag) string {
	form := "--" + f.Name
	if f.Shorthand != "" {
		form = "-" + f.Shorthand + ", " + form
	}
	if f.Value.Type() != "bool" {
		form += "=" + strings.ToUpper(f.Value.Type())
	}
	return form
}

// roff escapes what begins a request or an escape.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func paragraphs(s string) string {
	return strings.ReplaceAll(roff(s), "\n\n", "\n.PP\n")
}

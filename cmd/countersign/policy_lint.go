package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/pkg/policy"
)

// lintLine is one line of "countersign policy lint --json".
type lintLine struct {
	policy.FileProblem
	Severity policy.Severity `json:"severity"`
	// Kind is what the file was taken for.
	Kind string `json:"kind"`
}

type lintOptions struct {
	json, strict, live bool
	kind               string
	repository         string
	installation       int64
}

func newPolicyLintCommand() *cobra.Command {
	var options lintOptions
	c := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check CODEOWNERS and policy files: every mistake with its line, key and mend",
		Long: `Check CODEOWNERS and policy files. Which of the three a file is, is told by its
name (CODEOWNERS) and by its keys; --kind says it where neither does.

With --live, GitHub is asked about the owners, with the App's credentials from
COUNTERSIGN_GITHUB_APP_ID and COUNTERSIGN_GITHUB_PRIVATE_KEY (or its _FILE form):
users and teams that do not exist, secret, read-only and empty teams.

Exit codes: 0 no mistake, 1 mistakes (with --strict also warnings), 2 a file
could not be read.`,
		Example: `  countersign policy lint .github/CODEOWNERS .github/countersign.toml
  countersign policy lint --json --kind repository - < countersign.toml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return runPolicyLint(c, options, args) },
	}
	c.Flags().BoolVar(&options.json, "json", false, "print one JSON object a mistake")
	c.Flags().BoolVar(&options.strict, "strict", false, "warnings fail too")
	c.Flags().BoolVar(&options.live, "live", false, "ask GitHub about every owner the files name: do they exist, are they visible, can they approve")
	c.Flags().StringVar(&options.repository, "repository", "", "owner/name, for --live")
	c.Flags().Int64Var(&options.installation, "installation", 0, "the App's installation id, for --live")
	c.Flags().StringVar(&options.kind, "kind", "", "codeowners, repository or organization, instead of telling by name and keys")
	return c
}

func runPolicyLint(c *cobra.Command, options lintOptions, names []string) error {
	switch options.kind {
	case "", kindCodeowners, kindRepository, kindOrganization:
	default:
		return fmt.Errorf("--kind %s: use %s, %s or %s", printable(options.kind), kindCodeowners, kindRepository, kindOrganization)
	}
	texts := make([][]byte, len(names))
	for i, name := range names {
		text, err := readInput(c, name)
		if err != nil {
			return fmt.Errorf("read a file to check: %w", err)
		}
		texts[i] = text
	}
	var live []lintLine
	if options.live {
		var err error
		if live, err = liveLint(c.Context(), options, names, texts); err != nil {
			return err
		}
	}
	return printLint(c, options, names, texts, live)
}

func printLint(c *cobra.Command, options lintOptions, names []string, texts [][]byte, live []lintLine) error {
	out := newPrinter(c.OutOrStdout(), options.json)
	mistakes, warnings := 0, 0
	for i, name := range names {
		kind, lines := lint(name, texts[i], options.kind)
		for _, l := range live {
			if l.Path == name {
				lines = append(lines, l)
			}
		}
		for _, l := range lines {
			if l.Severity == policy.SeverityError {
				mistakes++
			} else {
				warnings++
			}
			if err := out.print(lintText(l), l); err != nil {
				return err
			}
		}
		if len(lines) == 0 && !options.json {
			if err := out.print(fmt.Sprintf("%s: fine (%s)", printable(name), kind), nil); err != nil {
				return err
			}
		}
	}
	return out.finish(mistakes > 0 || options.strict && warnings > 0)
}

func lintText(l lintLine) string {
	place := printable(l.Path)
	if l.Line > 0 {
		place += fmt.Sprintf(":%d:%d", l.Line, l.Column)
	}
	if l.Key != "" {
		place += ": " + printable(l.Key)
	}
	return fmt.Sprintf("%s: %s: %s; %s", place, l.Severity, printableText(l.Message), printableText(l.Mend))
}

// lint checks one file of a known kind, or of the kind it looks like.
func lint(name string, text []byte, kind string) (string, []lintLine) {
	if kind == "" {
		kind = kindOfFile(name, text)
	}
	var problems []policy.FileProblem
	switch kind {
	case kindCodeowners:
		return kind, lintCodeowners(name, text)
	case kindOrganization:
		_, problems = policy.ParseOrganizationPolicy(name, text)
	case kindRepository:
		_, problems = policy.ParseRepositoryPolicy(name, text)
	default:
		// Broken TOML says so in either reading; a file that is neither kind gets
		// the question instead of one kind's complaints.
		_, problems = policy.ParseRepositoryPolicy(name, text)
		if len(problems) == 0 || problems[0].Key == "schema_version" || problems[0].Key == "enabled" {
			problems = []policy.FileProblem{{
				Path: name, Line: 1, Column: 1, Code: policy.CodeInvalidPolicy, Message: "this is neither a repository policy (no enabled) nor an organisation policy (no apps, no guardrails)",
				Mend: "write enabled = true for a repository, or say which it is with --kind",
			}}
		}
	}
	lines := make([]lintLine, len(problems))
	for i, p := range problems {
		lines[i] = lintLine{FileProblem: p, Severity: policy.SeverityError, Kind: kind}
	}
	return kind, lines
}

func lintCodeowners(name string, text []byte) []lintLine {
	file := policy.ParseCodeowners(name, text)
	var lines []lintLine
	add := func(problems []policy.CodeownersProblem, severity policy.Severity) {
		for _, p := range problems {
			lines = append(lines, lintLine{Severity: severity, Kind: kindCodeowners, FileProblem: policy.FileProblem{
				Path: name, Line: p.Line, Column: p.Column, Code: policy.Code(p.Kind), Message: p.Message, Mend: p.Mend,
			}})
		}
	}
	add(file.Problems(), policy.SeverityError)
	add(file.Warnings(), policy.SeverityWarning)
	return lines
}

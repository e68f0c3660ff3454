package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/internal/convert"
)

// importReport is what "countersign policy import --json" prints.
type importReport struct {
	convert.Result
	Share float64 `json:"share"`
}

func newPolicyImportCommand() *cobra.Command {
	var from, output string
	var asJSON bool
	c := &cobra.Command{
		Use:   "import --from TOOL FILE...",
		Short: "Convert the policy of another tool, and say what could not be carried over",
		Long: `Convert the policy of another tool into CODEOWNERS and a Countersign policy, and say
of everything that could not be carried over where it stood, why, and what to do.
Nothing is ever widened: what cannot be said is left out, and marked where more would
pass without it.

  native            CODEOWNERS, and a ruleset or branch protection as JSON
                    (gh api repos/OWNER/REPO/rulesets/ID)
  policy-bot        .policy.yml
  codeowners-plus   every .codeowners file and codeowners.toml, by their paths
                    relative to the root of the repository
  extra-codeowners  the repository's and the organisation's TOML files

The files are printed, or written below --output, never over another file. The guides
are in docs/migration/.

Exit codes: 0 all was carried over, 1 something was not, 2 nothing could be converted.`,
		Example: `  countersign policy import --from policy-bot .policy.yml
  countersign policy import --from codeowners-plus --output out/ $(git ls-files '*.codeowners' codeowners.toml)`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(convert.Kinds, convert.Kind(from)) {
				return fmt.Errorf("--from %s: use one of %v", quoted(from), convert.Kinds)
			}
			var sources []convert.Source
			for _, name := range args {
				text, err := readInput(c, name)
				if err != nil {
					return fmt.Errorf("read a policy to convert: %w", err)
				}
				sources = append(sources, convert.Source{Path: filepath.ToSlash(name), Text: strings.ToValidUTF8(string(text), "\uFFFD")})
			}
			r, err := convert.Convert(convert.Kind(from), sources)
			if err != nil {
				return err
			}
			if output != "" {
				if err := writeConverted(output, r.Files); err != nil {
					return err
				}
			}
			if asJSON {
				err = writeJSON(c, importReport{Result: r, Share: r.Share()})
			} else {
				err = printImport(c, r, output)
			}
			if err == nil && len(r.Lost) > 0 {
				return findings("")
			}
			return err
		},
	}
	c.Flags().StringVar(&from, "from", "", "native, policy-bot, codeowners-plus or extra-codeowners (required)")
	c.Flags().StringVar(&output, "output", "", "directory to write the files below, instead of printing them")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object: the files, what was carried over and what was lost")
	if err := c.MarkFlagRequired("from"); err != nil {
		panic(err) // the flag is declared above
	}
	return c
}

func writeConverted(dir string, files []convert.File) error {
	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.Path))
		if _, err := os.Lstat(name); err == nil {
			return fmt.Errorf("%s exists: nothing is written over; give another --output", printable(name))
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // a repository's files
			return err
		}
		if err := os.WriteFile(name, []byte(f.Text), 0o644); err != nil { //nolint:gosec // a repository's files
			return err
		}
	}
	return nil
}

func printImport(c *cobra.Command, r convert.Result, output string) error {
	out := newPrinter(c.OutOrStdout(), false)
	for _, f := range r.Files {
		text := "wrote " + printable(filepath.Join(output, f.Path))
		if output == "" {
			text = "# " + printable(f.Path) + "\n" + printableLines(f.Text)
		}
		if err := out.print(text, nil); err != nil {
			return err
		}
	}
	if err := out.finish(false); err != nil {
		return err
	}
	report := c.ErrOrStderr()
	for _, l := range r.Lost {
		sign := "not carried over"
		if l.Weakens {
			sign = "NOT CARRIED OVER, MORE WOULD PASS"
		}
		where := printable(clipped(l.Path))
		if l.Line > 0 {
			where = fmt.Sprintf("%s:%d", where, l.Line)
		}
		fmt.Fprintf(report, "%s: %s: %s: %s\n", where, sign, short(l.What), short(l.Why))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(report, "note: %s\n", short(n))
	}
	_, err := fmt.Fprintf(report, "%d of %d carried over (%.0f %%)\n", len(r.Carried), len(r.Carried)+len(r.Lost), 100*r.Share())
	return err
}

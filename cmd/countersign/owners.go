package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/pkg/policy"
)

// ownersOptions are the flags of "countersign owners".
type ownersOptions struct {
	codeowners string
	json       bool
	null       bool
}

// ownersLine is one line of "countersign owners --json". A path without owners
// has an empty list; one that no rule matches has line 0 and no pattern as well.
type ownersLine struct {
	Path    string   `json:"path"`
	Owners  []string `json:"owners"`
	Line    int      `json:"line"`
	Pattern string   `json:"pattern"`
}

func newOwnersCommand() *cobra.Command {
	var options ownersOptions
	command := &cobra.Command{
		Use:   "owners --codeowners FILE [--json] [--] [PATH...]",
		Short: "Print the code owners of paths, as GitHub reads CODEOWNERS",
		Long: `Print the code owners of paths, as GitHub reads CODEOWNERS.

Paths are relative to the root of the repository. Without any, they are read from
standard input, one a line.

A line that GitHub would skip as invalid is reported on standard error and
skipped, so that an earlier rule applies. Countersign itself blocks on such a
file; here the exit code is 1.`,
		Example: `  countersign owners --codeowners .github/CODEOWNERS cmd/main.go
  git diff --name-only -z main... | countersign owners --codeowners .github/CODEOWNERS -z --json`,
		RunE: func(c *cobra.Command, args []string) error { return runOwners(c, options, args) },
	}
	flags := command.Flags()
	flags.StringVar(&options.codeowners, "codeowners", "", "the CODEOWNERS file (default: where GitHub looks, below the current directory)")
	flags.BoolVar(&options.json, "json", false, "print one JSON object a line: path, owners, line, pattern")
	flags.BoolVarP(&options.null, "null", "z", false, "paths on standard input end with a NUL byte, not a line end")
	return command
}

// runOwners prints nothing on standard output before it has read all it needs, so
// that a failure is never half an answer.
func runOwners(c *cobra.Command, options ownersOptions, paths []string) error {
	file, err := loadCodeowners(options.codeowners)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		if paths, err = readPaths(c.InOrStdin(), options.null); err != nil {
			return fmt.Errorf("read paths from standard input: %w", err)
		}
	}
	for _, path := range paths {
		if options.json && !utf8.ValidString(path) {
			return fmt.Errorf("path %s is not UTF-8: JSON cannot hold it, leave --json out", strconv.Quote(path))
		}
		if fault := pathFault(path); fault != "" {
			return fmt.Errorf("path %s %s: write it relative to the root of the repository, as git does", strconv.Quote(path), fault)
		}
	}
	problems := file.Problems()
	for _, p := range problems {
		fmt.Fprintf(c.ErrOrStderr(), "%s:%d:%d: %s: %s; %s\n", printable(file.Path()), p.Line, p.Column, p.Kind, p.Message, p.Mend)
	}
	out := bufio.NewWriter(c.OutOrStdout())
	print := printOwners
	if options.json {
		print = printOwnersJSON
	}
	for i, ownership := range file.MatchAll(paths) {
		if err := print(out, paths[i], ownership); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if len(problems) > 0 {
		return findings(fmt.Sprintf("%s has invalid lines: GitHub skips them, Countersign blocks on them", printable(file.Path())))
	}
	return nil
}

// loadCodeowners reads the named file, or the one GitHub would read if the current
// directory were the root of a repository.
func loadCodeowners(name string) (*policy.Codeowners, error) {
	if name == "" {
		found, ok := policy.FirstCodeowners(func(path string) bool {
			info, err := os.Stat(path)
			return err == nil && info.Mode().IsRegular()
		})
		if !ok {
			return nil, fmt.Errorf("no CODEOWNERS file in %s: name one with --codeowners FILE", strings.Join(policy.CodeownersLocations(), ", "))
		}
		name = found
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--codeowners: no file %s", strconv.Quote(name))
	} else if err != nil {
		return nil, fmt.Errorf("--codeowners: %w", err)
	}
	return policy.ParseCodeowners(name, text), nil
}

func readPaths(in io.Reader, null bool) ([]string, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	end := "\n"
	if null {
		end = "\x00"
	}
	var paths []string
	for path := range strings.SplitSeq(string(text), end) {
		if !null {
			path = strings.TrimSuffix(path, "\r")
		}
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// pathFault says why git could have no file of this path.
func pathFault(path string) string {
	switch {
	case path == "":
		return "is empty"
	case path[0] == '/':
		return "is absolute"
	case strings.HasSuffix(path, "/"):
		return "names a directory, and CODEOWNERS owns files"
	}
	for name := range strings.SplitSeq(path, "/") {
		switch name {
		case "":
			return "has two slashes in a row"
		case ".", "..":
			return "has the segment " + name
		}
	}
	return ""
}

func ownerNames(ownership policy.Ownership) []string {
	names := make([]string, len(ownership.Owners))
	for i, owner := range ownership.Owners {
		names[i] = owner.String()
	}
	return names
}

func printOwners(out *bufio.Writer, path string, ownership policy.Ownership) error {
	names := strings.Join(ownerNames(ownership), " ")
	if names == "" {
		names = "(unowned)"
	}
	_, err := fmt.Fprintf(out, "%s\t%s\n", printable(path), names)
	return err
}

func printOwnersJSON(out *bufio.Writer, path string, ownership policy.Ownership) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(ownersLine{Path: path, Owners: ownerNames(ownership), Line: ownership.Line, Pattern: ownership.Pattern})
}

// printable quotes a path that could pretend to be more than a path: by control or
// format characters, by a quote, or by a colon at the start of a line, which CI
// systems take for a command.
func printable(path string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == '"' || r == unicode.ReplacementChar }
	if strings.HasPrefix(path, ":") || strings.HasPrefix(path, "#") || strings.IndexFunc(path, odd) >= 0 {
		return strconv.Quote(path)
	}
	return path
}

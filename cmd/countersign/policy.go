package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/pkg/policy"
)

func newPolicyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Check policy files, and what a change of them would turn",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newPolicyLintCommand(), newPolicyDiffCommand(), newPolicyImportCommand())
	return c
}

// The kinds of file that a policy author writes.
const (
	kindCodeowners   = "codeowners"
	kindRepository   = "repository"
	kindOrganization = "organization"
)

// kindOfFile tells the kinds apart by the name of CODEOWNERS and by the keys
// of a policy file; empty when it cannot tell.
func kindOfFile(name string, text []byte) string {
	if strings.HasPrefix(strings.ToUpper(filepath.Base(name)), "CODEOWNERS") {
		return kindCodeowners
	}
	return policy.DetectPolicyKind(text)
}

// printer writes one finding after another, as text or as JSON lines.
type printer struct {
	out  *bufio.Writer
	json *json.Encoder
}

func newPrinter(w io.Writer, asJSON bool) *printer {
	p := &printer{out: bufio.NewWriter(w)}
	if asJSON {
		p.json = json.NewEncoder(jsonEscaper{p.out})
		p.json.SetEscapeHTML(false)
	}
	return p
}

// print writes line, or value where JSON was asked for.
func (p *printer) print(line string, value any) error {
	if p.json != nil {
		return p.json.Encode(value)
	}
	if line == "" {
		return nil
	}
	_, err := p.out.WriteString(line + "\n")
	return err
}

// finish writes out what was printed; found says that it holds findings, which the exit code tells.
func (p *printer) finish(found bool) error {
	if err := p.out.Flush(); err != nil {
		return err
	}
	if found {
		return findings("")
	}
	return nil
}

// readInput reads a file, or standard input for "-".
func readInput(c *cobra.Command, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(c.InOrStdin())
	}
	text, err := os.ReadFile(name)
	var refused *fs.PathError
	if errors.As(err, &refused) {
		return nil, fmt.Errorf("%s %s: %w", refused.Op, printable(clipped(refused.Path)), refused.Err)
	}
	return text, err
}

// printableText keeps a message on its line: what cannot be seen is written
// out. Unlike printable it leaves quotation marks alone.
func printableText(s string) string {
	if strings.IndexFunc(s, hiddenRune) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hiddenRune(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hiddenRune(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }

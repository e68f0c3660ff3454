package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

type whyOptions struct {
	directory, organization, pull string
	json                          bool
	db                            databaseFlags
}

// whyLine is one line of "countersign why --json": one path.
type whyLine struct {
	Path string `json:"path"`
	// Line and Pattern name the rule of CODEOWNERS that decides; 0 and "" where none matches. Section is the comment above it.
	Line    int    `json:"line"`
	Pattern string `json:"pattern"`
	Section string `json:"section,omitempty"`
	// Groups are what has to be approved for the path, and by whom.
	Groups []whyGroup `json:"groups"`
}

type whyGroup struct {
	Kind      policy.GroupKind `json:"kind"`
	Name      string           `json:"name,omitempty"`
	Owners    []string         `json:"owners"`
	Required  int              `json:"required"`
	AllOf     []string         `json:"all_of,omitempty"`
	Apps      []string         `json:"apps,omitempty"`
	NoApps    string           `json:"no_apps_because,omitempty"`
	Approved  []string         `json:"approved_by,omitempty"`
	Satisfied bool             `json:"satisfied"`
	NextStep  string           `json:"next_step,omitempty"`
}

func newWhyCommand() *cobra.Command {
	var o whyOptions
	c := &cobra.Command{
		Use:   "why FILE...",
		Short: "Say which rule owns a path, and who may approve a change of it",
		Long: `Say of each path which line of CODEOWNERS decides (and the comment above it), who
may approve a change, which Apps may stand in, and which requirements of the
policy apply.

Without --pull the files of a checkout are read: CODEOWNERS where GitHub looks for
it and .github/countersign.toml, below --directory. With --pull the files at the
base of that pull request are used, as its decision recorded them, and who has
approved already is told. Paths are relative to the root of the repository.

Exit codes: 0 told, 1 the rules themselves are at fault, 2 nothing could be told.`,
		Example: `  countersign why cmd/main.go docs/index.md
  countersign why --json --pull acme/api#7 deploy/prod.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return runWhy(c, o, args) },
	}
	o.db.add(c)
	f := c.Flags()
	f.StringVar(&o.directory, "directory", ".", "root of the checkout")
	f.StringVar(&o.organization, "organization", "", "the organisation's policy file, for the Apps that it enrols")
	f.StringVar(&o.pull, "pull", "", "owner/name#number: use the rules that decide there")
	f.BoolVar(&o.json, "json", false, "print one JSON object a path")
	return c
}

func runWhy(c *cobra.Command, o whyOptions, paths []string) error {
	for _, path := range paths {
		if !utf8.ValidString(path) {
			return fmt.Errorf("path %s is not UTF-8: GitHub shows no such path either", strconv.QuoteToASCII(clipped(path)))
		}
		if fault := pathFault(path); fault != "" {
			return fmt.Errorf("path %s %s: write it relative to the root of the repository, as git does", quoted(path), fault)
		}
	}
	s, number, err := whySnapshot(c, o)
	if err != nil {
		return err
	}
	for i := range s.Pulls {
		if p := &s.Pulls[i]; p.Number == number {
			p.Files, p.OlderHeads, p.ChangedFiles = policy.FileList{State: policy.FactPresent}, nil, len(paths)
			for _, path := range paths {
				p.Files.Items = append(p.Files.Items, policy.ChangedFile{Path: path, Status: "modified"})
			}
		}
	}
	v := policy.Evaluate(s)
	out := newPrinter(c.OutOrStdout(), o.json)
	faulty := false
	for _, f := range v.Findings {
		faulty = true
		fmt.Fprintf(c.ErrOrStderr(), "%s (%s): %s\n", f.Severity, f.Code, short(f.Message))
	}
	for i := range v.Pulls {
		p := &v.Pulls[i]
		if p.Number != number {
			continue
		}
		for _, f := range p.Findings {
			if f.Severity == policy.SeverityError && f.Code != policy.CodeEvidenceUnknown {
				faulty = true
				fmt.Fprintf(c.ErrOrStderr(), "%s (%s): %s\n", f.Severity, f.Code, short(f.Message))
			}
		}
		owners := policy.ParseCodeowners(s.Bases[p.BaseSHA].Codeowners.Path, []byte(s.Bases[p.BaseSHA].Codeowners.Text))
		for _, path := range paths {
			l := whyPath(p, owners, s.Bases[p.BaseSHA].Codeowners.Text, path)
			if err := out.print(whyText(l), l); err != nil {
				return err
			}
		}
	}
	return out.finish(faulty)
}

// whySnapshot is the snapshot that the rules are read from, and the number of the pull request in it.
func whySnapshot(c *cobra.Command, o whyOptions) (policy.Snapshot, int, error) {
	if o.pull == "" {
		s, err := localSnapshot(o)
		return s, 1, err
	}
	target, err := parsePull(o.pull)
	if err != nil {
		return policy.Snapshot{}, 0, err
	}
	db, err := o.db.open(c.Context())
	if err != nil {
		return policy.Snapshot{}, 0, err
	}
	defer db.Close()
	key, err := db.FindPull(c.Context(), target.repository, target.number)
	if err == nil {
		var d store.StoredDecision
		if d, err = newestDecision(c, db, key); err == nil {
			s, err := policy.DecodeSnapshot([]byte(d.Evidence))
			return s, target.number, err
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		return policy.Snapshot{}, 0, fmt.Errorf("nothing was decided about %s yet: leave --pull out to read the files of a checkout", printable(o.pull))
	}
	return policy.Snapshot{}, 0, err
}

// newestDecision is the one that counts, or the newest there is. Errors: store.ErrNotFound.
func newestDecision(c *cobra.Command, db *store.Store, key store.PullKey) (store.StoredDecision, error) {
	d, err := db.CurrentDecision(c.Context(), key)
	if !errors.Is(err, store.ErrNotFound) {
		return d, err
	}
	list, err := db.ListPullDecisions(c.Context(), key, "", 0, 1)
	if err == nil && len(list) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.StoredDecision{}, err
	}
	return db.GetDecision(c.Context(), list[0].ID)
}

// localSnapshot is a pull request of nobody in a checkout: it has the rules and no evidence.
func localSnapshot(o whyOptions) (policy.Snapshot, error) {
	files, err := loadDirectory(o.directory)
	if err != nil {
		return policy.Snapshot{}, fmt.Errorf("read the checkout %s: %w", printable(o.directory), err)
	}
	if files.codeowners.State != policy.FactPresent {
		return policy.Snapshot{}, fmt.Errorf("no CODEOWNERS file below %s in %s: name the root of a checkout with --directory", printable(o.directory), strings.Join(policy.CodeownersLocations(), ", "))
	}
	if files.policy.State != policy.FactPresent && files.fallback.State != policy.FactPresent {
		files.policy = &policy.FileFact{State: policy.FactPresent, Path: policy.PolicyPath, Text: "schema_version = 1\nenabled = true\n"}
	}
	const sha = "0000000000000000000000000000000000000001"
	owner := ownerOf(files.codeowners.Text)
	s := policy.Snapshot{
		Version: policy.SnapshotVersion, Now: time.Unix(1, 0).UTC(), HeadSHA: sha, PullsState: policy.FactPresent,
		Repository: policy.Repository{ID: 1, FullName: owner + "/checkout", Owner: owner, OwnerType: "Organization"},
		Pulls: []policy.PullRequest{{
			Number: 1, Author: &policy.Actor{ID: 1, Login: "nobody", Type: policy.ActorUser}, BaseRef: "main", BaseSHA: sha, HeadSHA: sha, Labels: []string{},
			Reviews: policy.ReviewList{State: policy.FactPresent}, Comments: policy.CommentList{State: policy.FactPresent},
		}},
		Bases: map[string]policy.Base{sha: {CodeownersErrors: policy.CodeownersErrorList{State: policy.FactPresent}}},
		OrganizationPolicy: policy.OrganizationPolicy{
			Repository: policy.FactPresent, Policy: policy.FileFact{State: policy.FactAbsent}, FallbackPolicy: policy.FileFact{State: policy.FactAbsent},
		},
	}
	if o.organization != "" {
		text, err := os.ReadFile(o.organization)
		if err != nil {
			return policy.Snapshot{}, fmt.Errorf("read the organisation's policy: %w", err)
		}
		s.OrganizationPolicy.Policy = policy.FileFact{State: policy.FactPresent, Path: filepath.Base(o.organization), Text: strings.ToValidUTF8(string(text), "\uFFFD")}
	}
	return files.apply(s), nil
}

// ownerOf is the organisation of the first team that a CODEOWNERS file names: a checkout does not say whose it is.
func ownerOf(text string) string {
	owners, _ := policy.OwnersIn(policy.ParseCodeowners("CODEOWNERS", []byte(text)))
	for _, o := range owners {
		if org, _, team := strings.Cut(o.Name, "/"); o.Kind == policy.OwnerTeam && team {
			return org
		}
	}
	return "nobody"
}

func whyPath(p *policy.PullVerdict, owners *policy.Codeowners, text, path string) whyLine {
	rule := owners.MatchAll([]string{path})[0]
	l := whyLine{Path: path, Line: rule.Line, Pattern: rule.Pattern, Section: sectionOf(text, rule.Line), Groups: []whyGroup{}}
	for i := range p.Groups {
		g := &p.Groups[i]
		for _, f := range g.Files {
			if f.Path != path {
				continue
			}
			w := whyGroup{Kind: g.Kind, Name: g.Name, Owners: g.Owners, Required: g.Required, AllOf: g.AllOf, Satisfied: g.Satisfied, NextStep: g.NextStep, NoApps: f.NonDelegable}
			for _, d := range g.Delegates {
				if d.Covers > 0 && f.NonDelegable == "" {
					w.Apps = append(w.Apps, d.Alias)
				}
			}
			for _, a := range g.Approvals {
				w.Approved = append(w.Approved, a.Login)
			}
			l.Groups = append(l.Groups, w)
		}
	}
	return l
}

// sectionOf is the comment that stands above a rule, which is how people divide a CODEOWNERS file.
func sectionOf(text string, line int) string {
	lines := strings.Split(text, "\n")
	for i := min(line-2, len(lines)-1); i >= 0; i-- {
		trimmed := strings.TrimSpace(lines[i])
		if heading := strings.Trim(trimmed, "#-= \t"); strings.HasPrefix(trimmed, "#") && heading != "" {
			return heading
		}
	}
	return ""
}

func whyText(l whyLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", printable(clipped(l.Path)))
	switch {
	case l.Line == 0:
		b.WriteString("  no rule of CODEOWNERS matches")
	default:
		fmt.Fprintf(&b, "  CODEOWNERS line %d: %s", l.Line, printable(clipped(l.Pattern)))
		if l.Section != "" {
			fmt.Fprintf(&b, " (%s)", short(l.Section))
		}
	}
	if len(l.Groups) == 0 {
		b.WriteString("\n  nobody has to approve it")
	}
	for _, g := range l.Groups {
		fmt.Fprintf(&b, "\n  %s", whyWho(g))
		switch {
		case g.NoApps != "":
			fmt.Fprintf(&b, "\n    no App may: %s", printable(clipped(g.NoApps)))
		case len(g.Apps) > 0:
			fmt.Fprintf(&b, "\n    or the Apps %s", printableList(g.Apps))
		}
		if len(g.Approved) > 0 {
			fmt.Fprintf(&b, "\n    approved by %s", printableList(g.Approved))
		}
	}
	return b.String()
}

func whyWho(g whyGroup) string {
	who := printableList(g.Owners)
	switch {
	case len(g.AllOf) > 0:
		return fmt.Sprintf("requirement %s: each of %s must approve", printable(clipped(g.Name)), printableList(g.AllOf))
	case g.Kind == policy.GroupOptional:
		return fmt.Sprintf("requirement %s: %s, for information", printable(clipped(g.Name)), who)
	case g.Kind == policy.GroupRequirement:
		return fmt.Sprintf("requirement %s: %d of %s must approve", printable(clipped(g.Name)), g.Required, who)
	case who == "":
		return "nobody could approve it"
	default:
		return "any one may approve: " + who
	}
}

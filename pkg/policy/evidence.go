package policy

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of one evaluation. They bound time and memory; within them a pull
// request of any size is decided exactly (D11).
const (
	// MaxChangedFiles bounds the changed files of one pull request (D11
	// replaces RG-348's 3,000): about 100 MiB of evidence.
	MaxChangedFiles = 200_000
	// listedFiles is how many changed files GitHub lists at most.
	listedFiles = 3000
	// MaxReviews bounds the reviews of one pull request (RG-350).
	MaxReviews = 1000
	// MaxGroupPaths bounds the paths of all groups together, MaxComparisons the
	// paths × delegations and groups × reviews that are compared (D11 replaces
	// RG-352): some seconds of one core at most.
	MaxGroupPaths  = 2_000_000
	MaxComparisons = 50_000_000
	// MaxTeamLookups bounds approvals × teams of one pull request (RG-351).
	MaxTeamLookups = 250
)

// unowned is the owner set of a path that nobody owns.
const unowned = -1

// ownedPath is one path that needs its owner's approval: a changed file, or
// the old path of a rename (RG-326).
type ownedPath struct {
	path      string
	renamedTo string
	owners    Ownership
	// set numbers the owner set (index in pullPlan.sets), unowned where nobody
	// owns the path.
	set int
	// index is the place in pullPlan.paths.
	index int
	// barred names the pattern that keeps Apps out, "" when none does.
	barred string
}

// checkFiles validates the file list (RG-326, RG-327, RG-348, RG-349). The
// paths are sorted and each occurs once; with a finding there are none, or not
// all.
func checkFiles(p *PullRequest) (paths []ownedPath, findings []Finding) {
	switch {
	case p.Files.State != FactPresent:
		return nil, []Finding{failure(CodeEvidenceUnknown, "", "the list of changed files could not be read in full; it is read again")}
	case p.ChangedFiles > MaxChangedFiles || len(p.Files.Items) > MaxChangedFiles:
		return nil, []Finding{failure(CodePullTooLarge, "",
			"the pull request changes %d files and at most %d are decided; split it", max(p.ChangedFiles, len(p.Files.Items)), MaxChangedFiles)}
	case !countAgrees(p.ChangedFiles, p.Files.Items):
		return nil, []Finding{failure(CodeIncompleteFiles, "",
			"GitHub counts %s and listed %d; the list is read again", count(p.ChangedFiles, "changed file"), len(p.Files.Items))}
	}
	paths = make([]ownedPath, 0, len(p.Files.Items)+len(p.Files.Items)/8)
	for i := range p.Files.Items {
		f := &p.Files.Items[i]
		if reason := fileFault(f); reason != "" {
			findings = append(findings, failure(CodeMalformedEvidence, f.Path, "a changed file is not usable as evidence: %s", reason))
			continue
		}
		paths = append(paths, ownedPath{path: f.Path, set: unowned})
		if f.Status == "renamed" {
			paths = append(paths, ownedPath{path: f.PreviousPath, renamedTo: f.Path, set: unowned})
		}
	}
	if len(findings) > 0 {
		return nil, limitFindings(findings)
	}
	slices.SortFunc(paths, func(a, b ownedPath) int {
		if c := strings.Compare(a.path, b.path); c != 0 {
			return c
		}
		return strings.Compare(a.renamedTo, b.renamedTo)
	})
	kept := paths[:0]
	for _, q := range paths {
		n := len(kept)
		if n > 0 && kept[n-1].path == q.path {
			if kept[n-1].renamedTo == "" && q.renamedTo == "" {
				findings = append(findings, failure(CodeContradictory, q.path, "GitHub listed the changed file %s twice; the list is read again", q.path))
			}
			continue // the old path of a rename that is also a changed file
		}
		kept = append(kept, q)
	}
	return kept, limitFindings(findings)
}

// countAgrees compares the list with the count of the pull request (RG-349).
// GitHub lists 3,000 files at most; from there on the list comes from comparing
// trees, where a rename is a removed and an added file: each file of GitHub's is
// then one of the list's or, where GitHub sees a rename, two.
func countAgrees(counted int, files []ChangedFile) bool {
	if counted == len(files) {
		return true
	}
	if counted < listedFiles {
		return false
	}
	added, removed := 0, 0
	for i := range files {
		switch files[i].Status {
		case "added":
			added++
		case "removed":
			removed++
		case "modified", "changed":
		default:
			return false // GitHub's own list: it must agree exactly
		}
	}
	return counted >= len(files)-min(added, removed) && counted <= len(files)
}

func limitFindings(findings []Finding) []Finding {
	slices.SortFunc(findings, compareFindings)
	findings = slices.Compact(findings)
	if len(findings) > maxListedProblems {
		more := failure(findings[0].Code, "", "and %d more of the same kind", len(findings)-maxListedProblems)
		findings = append(findings[:maxListedProblems:maxListedProblems], more)
	}
	return findings
}

// fileFault says why a changed file cannot be used, "" when it can.
func fileFault(f *ChangedFile) string {
	switch f.Status {
	case "added", "removed", "modified", "copied", "changed", "unchanged":
	case "renamed":
		if f.PreviousPath == "" {
			return "it is renamed and the old path is missing"
		}
	default:
		return "its status is unknown"
	}
	if reason := pathFault(f.Path); reason != "" {
		return reason
	}
	if f.PreviousPath != "" {
		return pathFault(f.PreviousPath)
	}
	return ""
}

// pathFault says why a path is no relative POSIX path (RG-327).
func pathFault(path string) string {
	switch {
	case path == "":
		return "its path is empty"
	case !utf8.ValidString(path):
		return "its path is not UTF-8"
	case strings.TrimSpace(path) != path:
		return "its path begins or ends with white space"
	case strings.Contains(path, `\`):
		return "its path holds a backslash"
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return "its path has an empty, . or .. segment"
		}
	}
	return ""
}

// opinion is the latest opinionated review of one actor (RG-329).
type opinion struct {
	actor    Actor
	login    string // lower case
	reviewID int64
	state    string
	commitID string
	at       time.Time
}

// readOpinions reduces all reviews to the latest opinionated one of each
// actor, sorted by type, login and id (RG-312, RG-329…RG-332).
func readOpinions(p *PullRequest) (opinions []opinion, findings []Finding) {
	switch {
	case p.Reviews.State != FactPresent:
		return nil, []Finding{failure(CodeEvidenceUnknown, "", "the reviews could not be read in full; they are read again")}
	case len(p.Reviews.Items) > MaxReviews:
		return nil, []Finding{failure(CodeEvidenceLimit, "",
			"the pull request has %d reviews and at most %d are decided; open a new one", len(p.Reviews.Items), MaxReviews)}
	}
	type actorKey struct {
		kind string
		id   int64
	}
	latest := map[actorKey]opinion{}
	kinds := map[int64]string{} // account → type
	seen := make(map[int64]bool, len(p.Reviews.Items))
	for i := range p.Reviews.Items {
		r := &p.Reviews.Items[i]
		if seen[r.ID] {
			findings = append(findings, failure(CodeContradictory, "", "GitHub listed review %d twice; the reviews are read again", r.ID))
			continue
		}
		seen[r.ID] = true
		opinionated, reason := reviewFault(r)
		if reason != "" {
			findings = append(findings, failure(CodeMalformedEvidence, "", "review %d is not usable as evidence: %s", r.ID, reason))
			continue
		}
		if !opinionated {
			continue
		}
		o := opinion{actor: *r.Author, login: strings.ToLower(r.Author.Login), reviewID: r.ID, state: r.State, commitID: r.CommitID, at: r.SubmittedAt}
		key := actorKey{o.actor.Type, o.actor.ID}
		if kind, known := kinds[o.actor.ID]; known && kind != o.actor.Type {
			findings = append(findings, failure(CodeContradictory, "", "reviews of account %d are by a user and by a bot; they are read again", o.actor.ID))
		}
		kinds[o.actor.ID] = o.actor.Type
		before, ok := latest[key]
		if ok && before.login != o.login {
			findings = append(findings, failure(CodeContradictory, "", "reviews of account %d carry two logins; they are read again", o.actor.ID))
		}
		if compareAge(before, o) < 0 {
			latest[key] = o
		}
	}
	for _, o := range latest {
		opinions = append(opinions, o)
	}
	slices.SortFunc(opinions, func(a, b opinion) int {
		return cmp.Or(strings.Compare(a.actor.Type, b.actor.Type), strings.Compare(a.login, b.login), cmp.Compare(a.actor.ID, b.actor.ID))
	})
	return opinions, limitFindings(findings)
}

func compareAge(a, b opinion) int {
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.reviewID, b.reviewID))
}

// reviewFault says whether a review is an opinion, and why it cannot be used
// where it is one (RG-332).
func reviewFault(r *Review) (opinionated bool, reason string) {
	switch r.State {
	case "COMMENTED", "PENDING":
		return false, ""
	case "APPROVED", "CHANGES_REQUESTED", "DISMISSED":
	default:
		return false, "its state is unknown"
	}
	switch {
	case r.ID <= 0:
		return false, "its id is missing"
	case r.Author == nil:
		return false, "its author's account is gone; open a new pull request"
	case r.Author.ID <= 0 || r.Author.Login == "":
		return false, "its author's id or login is missing"
	case r.Author.Type != ActorUser && r.Author.Type != ActorBot:
		return false, "its author is neither a user nor a bot"
	case r.SubmittedAt.IsZero():
		return false, "its time is missing"
	}
	return true, ""
}

func compareFindings(a, b Finding) int {
	return cmp.Or(severityRank(a.Severity)-severityRank(b.Severity), strings.Compare(string(a.Code), string(b.Code)),
		strings.Compare(a.Subject, b.Subject), cmp.Compare(a.Line, b.Line), strings.Compare(a.Message, b.Message))
}

func severityRank(s Severity) int {
	switch s {
	case SeverityError:
		return 0
	case SeverityWarning:
		return 1
	default:
		return 2
	}
}

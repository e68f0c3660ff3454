package policy

import (
	"fmt"
	"slices"
	"strings"
)

// GitHub's limits of a Check Run's output, in bytes of UTF-8: never more than
// its limits in characters (RG-293).
const (
	MaxTitleBytes = 255
	MaxTextBytes  = 65_535
)

// maxShownFiles and maxShownUnowned bound the files listed of one group.
const (
	maxShownFiles   = 50
	maxShownUnowned = 50
)

// Render turns a verdict into a Check Run's content (spec section K). The
// title says the one thing to do next; summary and text explain everything
// that decided. It is deterministic to the byte (I8), and what it cuts to stay
// within GitHub's limits was used in full by the decision.
func Render(v Verdict, in RenderInput) CheckOutput {
	out := CheckOutput{
		Status:  "completed",
		Title:   clip(plain(title(v)), MaxTitleBytes),
		Summary: summary(v, in),
		Text:    text(v),
		Actions: []CheckAction{{Label: "Re-evaluate", Description: "Read the evidence again and decide anew", Identifier: "re-evaluate"}},
	}
	switch {
	case v.Conclusion.Approved():
		out.Conclusion = "success"
	case v.policyUnreadable():
		out.Status = "in_progress"
	case v.MissingOnly && in.MissingApproval == LookActionRequired:
		out.Conclusion = "action_required"
	case v.MissingOnly && in.MissingApproval == LookPending:
		out.Status = "in_progress"
	default:
		out.Conclusion = "failure"
	}
	return out
}

// RenderInProgress is the content of an unfinished run.
func RenderInProgress(reason InProgressReason) CheckOutput {
	out := CheckOutput{Status: "in_progress"}
	switch reason {
	case InProgressReevaluating:
		out.Title = "Evaluating again: the evidence changed"
		out.Summary = "Something that decides about this commit changed. The earlier result no longer counts; reviews, teams and policy are read again."
	case InProgressUncertain:
		out.Title = "Evaluating again: the last attempt did not finish"
		out.Summary = "Evidence could not be read in full, or a result could not be confirmed. The evaluation is repeated until it is certain; nothing is approved meanwhile."
	default:
		out.Title = "Evaluating: reading reviews, owners and policy"
		out.Summary = "The evidence for this commit is being read from GitHub."
	}
	return out
}

func title(v Verdict) string {
	if v.Conclusion.Approved() {
		if v.BreakGlass {
			return breakGlassTitle(v)
		}
		return approvedTitle(v)
	}
	prefix := "Blocked: "
	if v.MissingOnly {
		prefix = "Approval required: "
	}
	return prefix + v.NextStep
}

func approvedTitle(v Verdict) string {
	groups, approvers := 0, map[string]bool{}
	for i := range v.Pulls {
		for j := range v.Pulls[i].Groups {
			if g := &v.Pulls[i].Groups[j]; g.Kind != GroupOptional {
				groups++
				for _, a := range g.Approvals {
					approvers[strings.ToLower(a.Login)] = true
				}
			}
		}
	}
	if groups == 0 {
		return "Approved: no changed file has an owner"
	}
	return fmt.Sprintf("Approved: %s satisfied by %s", count(groups, "requirement"), count(len(approvers), "approver"))
}

func breakGlassTitle(v Verdict) string {
	for i := range v.Pulls {
		if b := v.Pulls[i].BreakGlass; b != nil && b.Active {
			return fmt.Sprintf("BREAK-GLASS until %s: released by %s and %s: %s",
				b.ExpiresAt.UTC().Format(minuteFormat), b.RequestedBy, b.ConfirmedBy, b.Reason)
		}
	}
	return "BREAK-GLASS"
}

func summary(v Verdict, in RenderInput) string {
	doc := newDocument(MaxTextBytes)
	switch {
	case v.BreakGlass && v.Conclusion.Approved():
		doc.line("🚨 **Released by break-glass, not by its owners.**")
	case v.Conclusion.Approved():
		doc.line("✅ **Approved.** Every required approval is there, for exactly this commit's change.")
	case v.MissingOnly:
		doc.line("❌ **Approval required.** Next: " + prose(v.NextStep))
	default:
		doc.line("⛔ **Blocked.** " + prose(v.NextStep))
	}
	if in.Insecure || slices.Contains(v.Codes, CodeInsecureChanges) {
		doc.blank()
		doc.line("⚠️ The operator has switched off the built-in protection of workflows, CODEOWNERS and policy files: delegated Apps may approve changes of them.")
	}
	if v.MergeGroup != nil {
		writeMergeGroup(doc, v)
	} else if len(v.Pulls) > 1 {
		doc.blank()
		doc.line(fmt.Sprintf("This commit is the head of %s. The check belongs to the commit, so all of them must be approved:", count(len(v.Pulls), "open pull request")))
		doc.blank()
		for i := range v.Pulls {
			p := &v.Pulls[i]
			doc.line(fmt.Sprintf("- %s pull request %d into %s: %s", mark(p.Conclusion.Approved()), p.Number, code(p.BaseRef), prose(p.NextStep)))
		}
	}
	return doc.String()
}

func text(v Verdict) string {
	doc := newDocument(MaxTextBytes)
	writeFindings(doc, v.Findings)
	for i := range v.Pulls {
		writePull(doc, &v.Pulls[i])
	}
	doc.blank()
	doc.line(fmt.Sprintf("Decided for commit %s.", code(v.HeadSHA)))
	return doc.String()
}

func mark(ok bool) string {
	if ok {
		return "✅"
	}
	return "❌"
}

func writeFindings(doc *document, findings []Finding) {
	if len(findings) == 0 {
		return
	}
	doc.blank()
	for _, f := range findings {
		sign := "ℹ️ Note"
		switch f.Severity {
		case SeverityError:
			sign = "⛔ Error"
		case SeverityWarning:
			sign = "⚠️ Warning"
		}
		doc.line(fmt.Sprintf("- %s (%s): %s", sign, code(string(f.Code)), prose(f.Message)))
	}
}

func writePull(doc *document, p *PullVerdict) {
	doc.blank()
	doc.line(fmt.Sprintf("## %s Pull request %d into %s", mark(p.Conclusion.Approved()), p.Number, code(p.BaseRef)))
	doc.blank()
	doc.line(fmt.Sprintf("Judged by %s and %s at base commit %s.", orNone(p.CodeownersPath, "no CODEOWNERS file"), orNone(p.PolicyPath, "no policy file"), code(p.BaseSHA)))
	writeFindings(doc, p.Findings)
	if p.BreakGlass != nil && p.BreakGlass.Active {
		writeBreakGlass(doc, p.BreakGlass)
	}
	for i := range p.Groups {
		writeGroup(doc, &p.Groups[i])
	}
	if p.BreakGlass != nil && !p.BreakGlass.Active {
		writeBreakGlass(doc, p.BreakGlass)
	}
	if len(p.Unowned) > 0 {
		doc.blank()
		doc.line("### Paths without an owner")
		doc.blank()
		doc.line("They require no approval.")
		doc.blank()
		for i, path := range p.Unowned {
			if i == maxShownUnowned {
				doc.line("- and " + count(len(p.Unowned)-i, "more path"))
				break
			}
			doc.line("- " + code(path))
		}
	}
}

func orNone(path, none string) string {
	if path == "" {
		return none
	}
	return code(path)
}

func writeGroup(doc *document, g *GroupVerdict) {
	doc.blank()
	doc.line("### " + groupHeading(g))
	doc.blank()
	if g.Missing != "" {
		doc.line("- Missing: " + prose(g.Missing))
		doc.line("- Next: " + prose(g.NextStep))
	}
	for i := range g.Approvals {
		if doc.full() {
			doc.skip()
			continue
		}
		doc.line("- " + approvalLine(&g.Approvals[i]))
	}
	for _, r := range g.Rejected {
		if g.Satisfied {
			break // what counted is enough; the verdict keeps the others
		}
		doc.line(fmt.Sprintf("- ➖ %s does not count here (%s): %s", code(r.Login), code(string(r.Code)), prose(r.Reason)))
	}
	for _, d := range g.Delegates {
		line := fmt.Sprintf("- 🤖 The App %s may approve %d of %s", code(d.Alias), d.Covers, count(len(g.Files), "path"))
		if d.Why != "" {
			line += ": " + prose(d.Why)
		}
		doc.line(line)
	}
	for i := range g.Files {
		if i == maxShownFiles {
			doc.line("- and " + count(len(g.Files)-i, "more file"))
			break
		}
		if doc.full() {
			doc.skip()
			continue
		}
		doc.line("- " + fileLine(&g.Files[i]))
	}
}

func groupHeading(g *GroupVerdict) string {
	owners := make([]string, 0, len(g.Owners))
	for i, o := range g.Owners {
		if i == 20 {
			owners = append(owners, fmt.Sprintf("%d more", len(g.Owners)-i))
			break
		}
		owners = append(owners, code(o))
	}
	list := strings.Join(owners, " or ")
	if len(owners) == 0 {
		list = "nobody"
	}
	switch {
	case g.Kind == GroupOptional:
		return fmt.Sprintf("ℹ️ Requirement %s: for information, %s", code(g.Name), list)
	case len(g.AllOf) > 0:
		return fmt.Sprintf("%s Requirement %s: each of %s", mark(g.Satisfied), code(g.Name), strings.Join(owners, " and "))
	case g.Kind == GroupRequirement:
		need := count(g.Required, "approver")
		if g.HumansRequired > 0 {
			need += fmt.Sprintf(", %d of them people,", g.HumansRequired)
		}
		return fmt.Sprintf("%s Requirement %s: %s of %s", mark(g.Satisfied), code(g.Name), need, list)
	default:
		return fmt.Sprintf("%s Owners %s", mark(g.Satisfied), list)
	}
}

func approvalLine(a *ApprovalVerdict) string {
	via := make([]string, len(a.Via))
	for i, v := range a.Via {
		via[i] = code(v)
	}
	who := "✅ Approved by " + code(a.Login)
	if a.Author {
		who = "✅ The author " + code(a.Login) + " counts"
	}
	line := who + " as " + strings.Join(via, ", ")
	if a.Bot {
		line = who + ", the App " + strings.Join(via, ", ")
	}
	if a.ContentStable {
		line += ", for the older commit " + code(a.CommitID) + ": what these owners own is unchanged since"
	}
	if n := len(a.Paths); n > 0 {
		line += ", for " + count(n, "path") + " of this group"
	}
	return line
}

func fileLine(f *FileVerdict) string {
	line := code(f.Path)
	if f.RenamedTo != "" {
		line += " (renamed to " + code(f.RenamedTo) + ")"
	}
	if f.Line > 0 {
		line += fmt.Sprintf(": line %d, %s", f.Line, code(f.Pattern))
	}
	if f.NonDelegable != "" {
		line += "; no App may approve it: " + code(f.NonDelegable)
	}
	return line
}

func writeBreakGlass(doc *document, b *BreakGlassVerdict) {
	doc.blank()
	if b.Active {
		doc.line("### 🚨 Released by break-glass")
		doc.blank()
		doc.line(fmt.Sprintf("- Asked for by %s, confirmed by %s", code(b.RequestedBy), code(b.ConfirmedBy)))
		doc.line("- Reason: " + code(b.Reason))
		doc.line("- Ends at " + b.ExpiresAt.UTC().Format("2006-01-02 15:04:05 UTC"))
	} else {
		doc.line("### Break-glass")
		doc.blank()
		doc.line("- Missing: " + prose(b.Missing))
	}
	for _, r := range b.Rejected {
		doc.line(fmt.Sprintf("- ➖ Comment %d of %s releases nothing: %s", r.ID, code(r.Login), prose(r.Reason)))
	}
}

// document is Markdown built line by line within a bound. A line that does not
// fit is left out whole, so that no tag or escape is ever cut in two.
type document struct {
	b     strings.Builder
	limit int
	left  int
	cut   int
}

const cutNotice = "\n\n… %d lines are left out here; the decision used all of them.\n"

func newDocument(limit int) *document {
	return &document{limit: limit, left: limit - len(cutNotice) - 20}
}

// line adds one line. Everything from outside in it has gone through plain,
// prose or code.
func (d *document) line(s string) {
	if d.cut > 0 || len(s)+1 > d.left {
		d.cut++
		return
	}
	d.left -= len(s) + 1
	d.b.WriteString(s)
	d.b.WriteByte('\n')
}

// full reports that nothing more fits; skip counts a line that is then not
// even made.
func (d *document) full() bool { return d.cut > 0 }

func (d *document) skip() { d.cut++ }

// blank separates blocks; never two in a row, none at the start.
func (d *document) blank() {
	if d.b.Len() > 0 && d.cut == 0 && !strings.HasSuffix(d.b.String(), "\n\n") {
		d.line("")
	}
}

func (d *document) String() string {
	if d.cut > 0 {
		return d.b.String() + fmt.Sprintf(cutNotice, d.cut)
	}
	return d.b.String()
}

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The fixed forms of a break-glass comment. A comment is one line, and nothing
// but the form.
//
//	/countersign break-glass head=<full sha> until=<RFC 3339 time> reason=<text>
//	/countersign confirm-break-glass request=<comment id> head=<full sha>
const (
	breakGlassRequest = "/countersign break-glass"
	breakGlassConfirm = "/countersign confirm-break-glass"
)

// Bounds of what is looked at: anybody can write comments.
const (
	maxComments          = 10_000
	maxBreakGlassForms   = 100 // in all
	maxFormsAPerson      = 5   // so that nobody can push others out of view
	maxBreakGlassReason  = 500
	minBreakGlassReason  = 10
	maxRejectedComments  = 20
	breakGlassTimeFormat = time.RFC3339
)

// glassComment is a comment of one of the fixed forms.
type glassComment struct {
	comment *Comment
	login   string
	head    string
	until   time.Time
	reason  string
	request int64 // of a confirmation
}

// glass is the evaluation of a pull request's break-glass comments.
type glass struct {
	e      *evaluation
	p      *pullPlan
	rules  *BreakGlassRules
	v      *BreakGlassVerdict
	unsure []standing
}

// breakGlass looks for a request that releases the pull request now: by a
// member of a listed team, for exactly this head, not expired, not edited, and
// confirmed by a second person. A deleted comment is not in the snapshot, so
// it releases nothing. It returns what unknown facts could have changed.
func (e *evaluation) breakGlass(p *pullPlan) (*BreakGlassVerdict, []standing) {
	g := &glass{e: e, p: p, rules: p.base.rules.BreakGlass, v: &BreakGlassVerdict{}}
	g.v.Missing = message("to release this commit in an emergency, a member of %s comments: %s head=%s until=<time> reason=<why>",
		listOr(ownerNames(g.rules.Teams), 5), breakGlassRequest, p.head)
	list := p.pull.Comments
	switch {
	case list.State == FactMissing:
		want(&e.wants.comments, p.pull.Number)
		return g.v, []standing{unknownStanding("the comments could not be read")}
	case list.State != FactPresent:
		return g.v, []standing{unknownStanding("the comments could not be read in full")}
	case len(list.Items) > maxComments:
		g.v.Missing = message("the pull request has more than %d comments, too many to look for a release", maxComments)
		return g.v, nil
	}
	requests, confirms := g.forms(list.Items)
	g.decide(requests, confirms)
	slices.SortFunc(g.v.Rejected, func(a, b RejectedComment) int {
		return cmp.Or(cmp.Compare(b.ID, a.ID), strings.Compare(a.Reason, b.Reason))
	})
	g.v.Rejected = g.v.Rejected[:min(len(g.v.Rejected), maxRejectedComments):min(len(g.v.Rejected), maxRejectedComments)]
	return g.v, g.unsure
}

// forms finds the newest comments of each form that hold by themselves.
func (g *glass) forms(comments []Comment) (requests, confirms []glassComment) {
	sorted := make([]*Comment, len(comments))
	for i := range comments {
		sorted[i] = &comments[i]
	}
	slices.SortFunc(sorted, func(a, b *Comment) int { return cmp.Compare(b.ID, a.ID) })
	seen := map[int64]int{} // forms by account
	for i, c := range sorted {
		body := strings.TrimSpace(c.Body)
		confirm := strings.HasPrefix(body, breakGlassConfirm)
		if !confirm && !strings.HasPrefix(body, breakGlassRequest) {
			continue
		}
		if i > 0 && sorted[i-1].ID == c.ID || i+1 < len(sorted) && sorted[i+1].ID == c.ID {
			continue // listed twice: the state of one of them is wrong, so neither counts
		}
		form, reason := parseGlass(c, body, confirm)
		if reason == "" {
			reason = g.fault(form, confirm)
		}
		if reason != "" {
			g.reject(form, reason)
			continue
		}
		if seen[c.Author.ID]++; seen[c.Author.ID] > maxFormsAPerson || len(requests)+len(confirms) == maxBreakGlassForms {
			g.reject(form, "there are too many newer ones")
			continue
		}
		if confirm {
			confirms = append(confirms, form)
		} else {
			requests = append(requests, form)
		}
	}
	return requests, confirms
}

// parseGlass reads a comment of a fixed form, or says what is wrong with it.
func parseGlass(c *Comment, body string, confirm bool) (glassComment, string) {
	form := glassComment{comment: c}
	if c.Author != nil {
		form.login = strings.ToLower(c.Author.Login)
	}
	if strings.ContainsAny(body, "\n\r") {
		return form, "it must be a single line and nothing else"
	}
	prefix, keys := breakGlassRequest, []string{"head", "until", "reason"}
	if confirm {
		prefix, keys = breakGlassConfirm, []string{"request", "head"}
	}
	values, reason := glassValues(strings.TrimPrefix(body, prefix), keys)
	if reason != "" {
		return form, reason
	}
	form.head, form.reason = values["head"], values["reason"]
	if confirm {
		id, err := strconv.ParseInt(values["request"], 10, 64)
		if err != nil || strconv.FormatInt(id, 10) != values["request"] {
			return form, "request= must be the number of the comment to confirm"
		}
		form.request = id
		return form, ""
	}
	until, err := time.Parse(breakGlassTimeFormat, values["until"])
	if err != nil {
		return form, "until= must be a time such as 2026-03-04T15:00:00Z"
	}
	form.until = until.UTC()
	if n := len(form.reason); n < minBreakGlassReason || n > maxBreakGlassReason {
		return form, fmt.Sprintf("reason= must be %d to %d characters", minBreakGlassReason, maxBreakGlassReason)
	}
	return form, ""
}

// glassValues reads "key=value" in exactly the given order; the value of
// "reason" runs to the end of the line.
func glassValues(rest string, keys []string) (map[string]string, string) {
	values := map[string]string{}
	for _, key := range keys {
		rest = strings.TrimLeft(rest, " ")
		value, found := strings.CutPrefix(rest, key+"=")
		if !found {
			return nil, "expected " + strings.Join(keys, "=…, ") + "=… in this order"
		}
		if key == "reason" {
			values[key], rest = strings.TrimSpace(value), ""
			continue
		}
		values[key], rest, _ = strings.Cut(value, " ")
	}
	if strings.TrimSpace(rest) != "" {
		return nil, "something follows the form"
	}
	return values, ""
}

// fault checks what does not depend on other comments or on teams.
func (g *glass) fault(f glassComment, confirm bool) string {
	c, now := f.comment, g.e.s.Now
	switch {
	case c.ID <= 0 || c.Author == nil || c.Author.ID <= 0 || f.login == "" || c.Author.Type != ActorUser:
		return "only a person can do this"
	case !c.UpdatedAt.Equal(c.CreatedAt):
		return "it was edited; write a new comment"
	case c.CreatedAt.After(now):
		return "it is newer than this reading; it is read again"
	case f.head != g.p.head:
		return "it is for another commit"
	case confirm:
		return ""
	case !f.until.After(now):
		return "it has expired"
	case f.until.After(c.CreatedAt.Add(g.rules.MaxDuration)):
		return fmt.Sprintf("it asks for longer than the policy's %s", g.rules.MaxDuration)
	}
	return ""
}

func (g *glass) reject(f glassComment, reason string) {
	g.v.Rejected = append(g.v.Rejected, RejectedComment{ID: f.comment.ID, Login: f.login, Reason: reason})
}

// decide picks the confirmed request that lasts longest, else says what the
// newest valid request still needs.
func (g *glass) decide(requests, confirms []glassComment) {
	var pending *glassComment
	for i := range requests {
		r := &requests[i]
		if s := g.member(r, g.rules.Teams); s.answer != yes {
			g.note(r, s)
			continue
		}
		if pending == nil {
			pending = r
		}
		confirm := g.confirmation(r, confirms)
		if confirm == nil || !r.until.After(g.v.ExpiresAt) {
			continue
		}
		g.describe(r)
		g.v.Active, g.v.Missing = true, ""
		g.v.ConfirmID, g.v.ConfirmedBy = confirm.comment.ID, confirm.comment.Author.Login
	}
	if !g.v.Active && pending != nil {
		g.describe(pending)
		g.v.Missing = message("a second person of %s confirms by commenting: %s request=%d head=%s",
			listOr(ownerNames(g.rules.ConfirmTeams), 5), breakGlassConfirm, pending.comment.ID, g.p.head)
	}
}

func (g *glass) describe(r *glassComment) {
	g.v.RequestID, g.v.RequestedBy = r.comment.ID, r.comment.Author.Login
	g.v.Reason, g.v.ExpiresAt = r.reason, r.until
}

// confirmation finds the first comment of a second person that confirms r.
func (g *glass) confirmation(r *glassComment, confirms []glassComment) *glassComment {
	for i := len(confirms) - 1; i >= 0; i-- { // oldest first
		c := &confirms[i]
		switch {
		case c.request != r.comment.ID:
			continue
		case c.comment.Author.ID == r.comment.Author.ID:
			g.reject(*c, "the person who asked cannot confirm")
			continue
		case c.comment.ID < r.comment.ID || c.comment.CreatedAt.Before(r.comment.CreatedAt):
			g.reject(*c, "it is older than the request")
			continue
		}
		if s := g.member(c, g.rules.ConfirmTeams); s.answer != yes {
			g.note(c, s)
			continue
		}
		return c
	}
	return nil
}

func (g *glass) note(c *glassComment, s standing) {
	if s.answer == unsure {
		g.unsure = append(g.unsure, s)
	}
	g.reject(*c, s.reason)
}

// member says whether the comment's author is an active member of one of the
// teams. The team needs no access to the repository: the policy names it.
func (g *glass) member(c *glassComment, teams []Owner) standing {
	result := refuse(CodeNotEligible, "@%s is no member of %s", c.login, listOr(ownerNames(teams), 5))
	for _, team := range teams {
		key, ours := g.e.teamKey(team)
		if !ours {
			continue
		}
		switch g.e.membership(key, c.login) {
		case MembershipActive:
			return eligible
		case MembershipNone, MembershipPending:
		default:
			result = unknownStanding("whether @%s is a member of %s could not be read", c.login, team)
		}
	}
	return result
}

package convert

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/countersign/countersign/pkg/policy"
)

// fromNative keeps CODEOWNERS as it is, and carries over what a ruleset or a branch's protection says of reviews, where one is
// given as JSON (gh api repos/OWNER/REPO/rulesets/ID, or …/branches/BRANCH/protection).
func fromNative(sources []Source, r *Result) (draft, error) {
	d := draft{comments: []string{"CODEOWNERS stays as it is and goes on deciding who owns which path."}}
	seen := false
	for _, s := range sources {
		switch {
		case strings.HasPrefix(strings.ToUpper(path.Base(s.Path)), "CODEOWNERS"):
			seen = true
			nativeCodeowners(s, r)
		case strings.HasPrefix(strings.TrimSpace(s.Text), "{"):
			if err := nativeRules(s, r, &d); err != nil {
				return d, err
			}
		default:
			return d, fmt.Errorf("%s is neither CODEOWNERS nor a ruleset or branch protection as JSON", s.Path)
		}
	}
	if !seen {
		return d, fmt.Errorf("no CODEOWNERS among the files: name it, it goes on deciding")
	}
	return d, nil
}

func nativeCodeowners(s Source, r *Result) {
	c := policy.ParseCodeowners(s.Path, []byte(s.Text))
	for _, rule := range c.Rules() {
		addresses := 0
		for _, o := range rule.Owners {
			if o.Kind == policy.OwnerEmail {
				addresses++
			}
		}
		if addresses > 0 {
			r.lost(s.Path, rule.Line, false, "an owner by e-mail address", "an address cannot be matched to a reviewer and blocks every pull request that touches it; write @user or @org/team")
			continue
		}
		r.carried(s.Path, rule.Line, "the rule %s", rule.Pattern)
	}
	for _, p := range c.Problems() {
		r.lost(s.Path, p.Line, false, "a line that GitHub skips", "Countersign blocks on it instead: %s; %s", p.Message, p.Mend)
	}
}

// nativeReviews is what GitHub's two forms say of reviews.
type nativeReviews struct {
	Count      int  `json:"required_approving_review_count"`
	Dismiss    bool `json:"dismiss_stale_reviews"`
	DismissNew bool `json:"dismiss_stale_reviews_on_push"`
	Owners     bool `json:"require_code_owner_reviews"`
	OwnersNew  bool `json:"require_code_owner_review"`
	LastPush   bool `json:"require_last_push_approval"`
	Threads    bool `json:"required_review_thread_resolution"`
	Bypass     any  `json:"bypass_pull_request_allowances"`
}

func nativeRules(s Source, r *Result, d *draft) error {
	var doc struct {
		Reviews *nativeReviews `json:"required_pull_request_reviews"`
		Rules   []struct {
			Type       string        `json:"type"`
			Parameters nativeReviews `json:"parameters"`
		} `json:"rules"`
		Bypass []any `json:"bypass_actors"`
	}
	if err := json.Unmarshal([]byte(s.Text), &doc); err != nil {
		return fmt.Errorf("%s is no ruleset or branch protection: %w", s.Path, err)
	}
	found := false
	if doc.Reviews != nil {
		found = true
		nativeReview(s.Path, *doc.Reviews, r, d)
	}
	for _, rule := range doc.Rules {
		if rule.Type == "pull_request" {
			found = true
			nativeReview(s.Path, rule.Parameters, r, d)
		}
	}
	if len(doc.Bypass) > 0 {
		r.lost(s.Path, 0, false, "actors who may bypass the rules", "Countersign has no silent bypass: give them [break_glass], or let the ruleset that requires the check keep the bypass")
	}
	if !found {
		r.note("%s says nothing of reviews", s.Path)
	}
	return nil
}

func nativeReview(from string, n nativeReviews, r *Result, d *draft) {
	if n.Owners || n.OwnersNew {
		r.carried(from, 0, "code owners must approve")
	} else {
		r.note("%s does not require code owners today; Countersign will", from)
	}
	if n.Count > 1 {
		d.requirements = append(d.requirements, requirement{name: fmt.Sprintf("%d approvals of the owners", n.Count), paths: []string{"*"}, count: n.Count})
		r.carried(from, 0, "%d approvals", n.Count)
		r.note("GitHub counts approvals of anybody who may write; here every owner set needs %d of its own owners. Keep GitHub's count as well if anybody's approval should do", n.Count)
	} else if n.Count == 1 {
		r.carried(from, 0, "one approval")
	}
	switch {
	case n.Dismiss || n.DismissNew:
		r.carried(from, 0, "a push makes approvals stale")
	case n.Count > 0:
		d.contentStable = true
		r.carried(from, 0, "approvals survive a push")
		r.note("GitHub keeps an approval whatever is pushed after it; content_stable keeps it only while what the owners own is unchanged")
	}
	if n.LastPush {
		d.excludeLastPusher = true
		r.carried(from, 0, "the last pusher's approval does not count")
	}
	if n.Threads {
		r.lost(from, 0, true, "conversations must be resolved", "Countersign does not look at conversations; keep that rule in GitHub")
	}
	if n.Bypass != nil {
		r.lost(from, 0, false, "people who may bypass reviews", "Countersign has no silent bypass: give their team [break_glass]")
	}
}

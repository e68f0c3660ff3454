package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/retry"
	"github.com/countersign/countersign/pkg/store"
)

// Some reads fail in a way that waiting does not mend. They enter the snapshot, so that the check says what is wrong and who mends
// it; everything else stays an error, and the work is tried again with the check in progress.

// stubborn is how many attempts an answer that is no evidence is taken for a lagging or broken replica.
const stubborn = 5

// firstLook is how soon a verdict about unreadable evidence is looked at again; later looks come less and less often.
const firstLook = time.Minute

// policyError is a policy file that no repetition makes readable (RG-357).
type policyError struct{ path, reason string }

func (e *policyError) Error() string { return e.path + " cannot be used as a policy file: " + e.reason }

// unreadable sorts the error of a read about subject. ok is false where trying again may help.
func (c *collector) unreadable(err error, subject string) (u policy.Unreadable, ok bool) {
	permission, text := ghclient.Refusal(err)
	u = policy.Unreadable{Subject: subject, Detail: text}
	var file *policyError
	switch {
	case errors.As(err, &file):
		u.Code, u.Subject, u.Detail = policy.CodePolicyUnreadable, file.path, file.reason
	case errors.Is(err, ghclient.ErrForbidden) && permission != "": // not the token itself: without one nothing could be written either
		u.Code, u.Detail = policy.CodeMissingPermission, permission
	case errors.Is(err, ghclient.ErrTooLarge) && strings.HasPrefix(subject, "the changed files"):
		u.Code = policy.CodePullTooLarge
	case errors.Is(err, ghclient.ErrTooLarge):
		u.Code = policy.CodeEvidenceLimit
	case errors.Is(err, ghclient.ErrInvalid):
		u.Code = policy.CodeEvidenceRefused
	case errors.Is(err, ghclient.ErrMalformed) && c.ev.Trigger().Attempts >= stubborn:
		u.Code = policy.CodeMalformedEvidence
	default:
		return policy.Unreadable{}, false
	}
	return u, true
}

// refuse notes unreadable evidence, or gives the error back where trying again may help.
func (c *collector) refuse(err error, subject string) error {
	u, ok := c.unreadable(err, subject)
	if !ok {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snapshot.Unreadable = append(c.snapshot.Unreadable, u)
	c.refusal = err
	return nil
}

// hold puts a pull request into the snapshot without what could not be read of it; the final read compares it like any other.
func (c *collector) hold(e ghclient.Evidence, cause error, subject string) error {
	if err := c.refuse(cause, fmt.Sprintf("%s of pull request %d", subject, e.Pull.Number)); err != nil {
		return err
	}
	p := pullOf(e, nil)
	p.Files.State, p.Reviews.State = policy.FactUnknown, policy.FactUnknown
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(e)
	c.snapshot.Pulls = append(c.snapshot.Pulls, p)
	return nil
}

// holdUnread is hold for a pull request of which nothing could be read: its state alone is asked for.
func (c *collector) holdUnread(ctx context.Context, number int, cause error) error {
	if _, ok := c.unreadable(cause, ""); !ok {
		return cause
	}
	pull, err := c.gh.PullState(ctx, c.repo, number)
	if err != nil {
		return cause // nothing to compare a verdict with
	}
	if row, ok := c.row(number); ok && lags(row.Watermark, pull) {
		return fmt.Errorf("pull request %d: %w", number, errLagging)
	}
	if c.elsewhere(pull) {
		return nil
	}
	about, err := c.gh.Repository(ctx, c.repo)
	if err != nil {
		return cause
	}
	return c.hold(ghclient.Evidence{Pull: pull, Repository: about, RulesRef: cmp.Or(pull.BaseTip, pull.BaseSHA)}, cause, "the evidence")
}

// lookAgain is the follow-up of a verdict about unreadable evidence: waiting does not mend it, but nothing tells us when
// somebody has.
func (w *Worker) lookAgain(ev store.Evaluation) store.FollowUp {
	row := ev.Trigger()
	after := max(firstLook, retry.Aging(ev.ClaimedAt.Sub(row.RequestedAt), 0, w.Config.Worker.RetryMax))
	return store.FollowUp{Number: row.Number, After: after, Reason: "recheck.unreadable"}
}

package fanout

import (
	"context"
	"errors"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// why says why a base push queued a pull request, or left it alone. The set is closed and is a metric label.
type why string

const (
	whyKept       why = "kept"              // decided by the same rules about the same change
	whyRules      why = "rules_changed"     // CODEOWNERS or policy differ from what it was decided by
	whyChange     why = "change_moved"      // what GitHub compares is not what it was: the push brought in commits of its branch
	whyUndecided  why = "undecided"         // no settled decision of this head and base
	whyUnordered  why = "push_unknown"      // forced, or pushes whose order is not known
	whyTip        why = "tip_differs"       // the branch reads older than the push, or newer: its own push tells
	whyUnreadable why = "rules_unreadable"  // the rules cannot be named: a symbolic link, a server without the query, a branch that is gone
	whyBroad      why = "wider_than_a_push" // not a base push
)

var whys = []why{whyKept, whyRules, whyChange, whyUndecided, whyUnordered, whyTip, whyUnreadable, whyBroad}

// narrowing is what a base push's pass compares with: the rules at the new tip, read once a pass (P15).
type narrowing struct {
	rules string
	off   why // why nothing is compared; "" when it is
}

// readRules reads the rules at the branch's tip, where the row says what that tip is. A read that shows another tip proves
// nothing: it may be a replica that lags behind the push (P5). A push that is accepted later takes this pass's lease away, or
// finds it done and gets a pass of its own; there is no moment between.
func (p *pass) readRules(ctx context.Context, repo ghclient.Repo) (narrowing, error) {
	switch {
	case p.authority.Scope != store.ScopeBase:
		return narrowing{off: whyBroad}, nil
	case p.authority.Tip == "":
		return narrowing{off: whyUnordered}, nil
	}
	rules, err := p.github.BaseRules(ctx, repo, p.authority.BaseRef)
	switch {
	case errors.Is(err, ghclient.ErrNotFound), errors.Is(err, ghclient.ErrInvalid), errors.Is(err, ghclient.ErrMalformed):
		return narrowing{off: whyUnreadable}, nil
	case err != nil:
		return narrowing{}, err
	case rules.Tip != string(p.authority.Tip):
		return narrowing{off: whyTip}, nil
	case rules.Digest == "":
		return narrowing{off: whyUnreadable}, nil
	}
	return narrowing{rules: rules.Digest}, nil
}

// advance records one page. Those of it that the push cannot have changed are left alone: the rules are the ones they were decided
// by, and what GitHub compares for them is what it was.
func (p *pass) advance(ctx context.Context, repo ghclient.Repo, n narrowing, pulls []ghclient.Pull, next int) (queued int, err error) {
	if n.off != "" || len(pulls) == 0 {
		p.why[n.off] += len(pulls)
		return len(pulls), p.service.deps.Store.AdvancePage(ctx, p.authority, p.route, facts(pulls), next)
	}
	reasons, rests, err := p.compare(ctx, repo, n, pulls)
	if err != nil {
		return 0, err
	}
	kept, err := p.service.deps.Store.AdvancePageNarrowed(ctx, p.authority, p.route, facts(pulls), rests, next)
	if err != nil {
		return 0, err
	}
	for _, number := range kept {
		reasons[number] = whyKept
	}
	for _, reason := range reasons {
		p.why[reason]++
	}
	return len(pulls) - len(kept), nil
}

// compare says of each pull request why it is queued unless the store keeps it, and what those that may be kept would have to rest on.
func (p *pass) compare(ctx context.Context, repo ghclient.Repo, n narrowing, pulls []ghclient.Pull) (map[int]why, map[int]store.Basis, error) {
	reasons, numbers := map[int]why{}, []int{}
	for _, pull := range pulls {
		reasons[pull.Number] = whyUndecided
		numbers = append(numbers, pull.Number)
	}
	bases, err := p.service.deps.Store.ReadBases(ctx, p.authority, numbers)
	if err != nil {
		return nil, nil, err
	}
	var ask []int
	for _, pull := range pulls {
		basis, ok := bases[pull.Number]
		switch {
		case !ok || string(basis.Head) != pull.HeadSHA || basis.BaseRef != p.authority.BaseRef:
		case basis.Rules != n.rules:
			reasons[pull.Number] = whyRules
		default:
			ask = append(ask, pull.Number)
		}
	}
	rests := map[int]store.Basis{}
	if len(ask) == 0 {
		return reasons, rests, nil
	}
	changes, err := p.github.Changes(ctx, repo, ask)
	if err != nil {
		return nil, nil, err
	}
	for _, number := range ask {
		reasons[number] = whyChange
		if now, ok := changes[number]; ok {
			rests[number] = store.Basis{
				Number: number, Head: store.SHA(now.HeadSHA), BaseRef: now.BaseRef, Rules: n.rules, Change: now.ChangeDigest(),
			}
		}
	}
	return reasons, rests, nil
}

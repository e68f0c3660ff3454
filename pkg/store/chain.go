package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrChainBroken: the decision log was changed by something other than this program.
var ErrChainBroken = errors.New("decision chain is broken")

// ChainFaultKind says what was done to a chain.
type ChainFaultKind string

// The kinds.
const (
	ChainChanged   ChainFaultKind = "changed"   // a row does not have the hash that was stored with it
	ChainRemoved   ChainFaultKind = "removed"   // rows before this one are missing
	ChainReordered ChainFaultKind = "reordered" // a row stands at another place than it was written for
	ChainTail      ChainFaultKind = "tail"      // the newest rows are missing, or the tip was changed
)

// ChainFault is one place where a chain does not hold.
type ChainFault struct {
	Installation InstallationID
	Kind         ChainFaultKind
	Sequence     int64      // where it was found
	Decision     DecisionID // the row there, 0 where none is
	Detail       string
}

// Error names the place; it is errors.Is ErrChainBroken.
func (f *ChainFault) Error() string {
	return fmt.Sprintf("installation %d at sequence %d (decision %d): %s: %s", f.Installation, f.Sequence, f.Decision, f.Detail, ErrChainBroken)
}

// Is makes a fault an ErrChainBroken.
func (f *ChainFault) Is(target error) bool { return target == ErrChainBroken }

// Chain is one installation's decision log.
type Chain struct {
	Installation InstallationID
	Account      string
	Sequence     int64  // of the newest decision
	Hash         string // of the newest decision
	// Cut is the last sequence that retention removed, 0 when nothing was.
	Cut     int64
	CutHash string
	CutAt   time.Time
}

// ListChains lists the chains, of one installation or (0) of all.
func (s *Store) ListChains(ctx context.Context, i InstallationID) ([]Chain, error) {
	list, err := queryAll(ctx, s, `
		-- name: ListChains
		SELECT c.installation_id, coalesce(i.account_login, ''), c.sequence, c.hash, coalesce(k.sequence, 0), coalesce(k.hash, ''), k.cut_at
		FROM decision_chain c LEFT JOIN installation i USING (installation_id) LEFT JOIN LATERAL (
			SELECT sequence, hash, cut_at FROM decision_checkpoint k WHERE k.installation_id = c.installation_id ORDER BY sequence DESC LIMIT 1) AS k ON true
		WHERE $1 = 0 OR c.installation_id = $1 ORDER BY c.installation_id LIMIT 100000`, []any{i}, func(row pgx.CollectableRow) (Chain, error) {
		var c Chain
		var cut *time.Time
		err := row.Scan(&c.Installation, &c.Account, &c.Sequence, &c.Hash, &c.Cut, &c.CutHash, &cut)
		c.CutAt = timeOf(cut)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("list decision chains: %w", err)
	}
	return list, nil
}

// VerifyChain walks an installation's decisions in order, from the last checkpoint on, and compares every hash; a changed, removed
// or reordered row is a *ChainFault, which is ErrChainBroken. It reads only.
func (s *Store) VerifyChain(ctx context.Context, installation InstallationID) (checked int, err error) {
	checked, faults, err := s.WalkChain(ctx, installation, 1, nil)
	if err == nil && len(faults) > 0 {
		return checked, &faults[0]
	}
	return checked, err
}

// chainPage is how many decisions are read at a time: they are large.
const chainPage = 200

// WalkChain is VerifyChain that goes on behind a fault, until it has found most of them; each, when not nil, sees every decision
// in order, and its error ends the walk.
func (s *Store) WalkChain(ctx context.Context, installation InstallationID, most int, each func(StoredDecision) error) (checked int, faults []ChainFault, err error) {
	chains, err := s.ListChains(ctx, installation)
	if err != nil {
		return 0, nil, err
	}
	w := chainWalk{store: s, chain: Chain{Installation: installation}}
	if len(chains) > 0 {
		w.chain, w.sequence, w.previous = chains[0], chains[0].Cut, chains[0].CutHash
	}
	for len(w.faults) < most {
		page, err := queryAll(ctx, s, `
			-- name: VerifyChain
			SELECT `+decisionColumns+` FROM decision WHERE installation_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3`,
			[]any{installation, w.sequence, chainPage}, scanDecision)
		if err != nil {
			return w.checked, w.faults, fmt.Errorf("verify decisions of installation %d: %w", installation, err)
		}
		if len(page) == 0 {
			return w.checked, w.faults, w.tip(ctx)
		}
		for _, d := range page {
			if err := w.step(ctx, d); err != nil {
				return w.checked, w.faults, err
			}
			if each != nil {
				if err := each(d); err != nil {
					return w.checked, w.faults, err
				}
			}
			if len(w.faults) >= most {
				break
			}
		}
	}
	return w.checked, w.faults, nil
}

// chainWalk is one walk: what the next row has to name.
type chainWalk struct {
	store    *Store
	chain    Chain
	sequence int64
	previous string
	checked  int
	faults   []ChainFault
}

func (w *chainWalk) fault(kind ChainFaultKind, sequence int64, d DecisionID, format string, args ...any) {
	w.faults = append(w.faults, ChainFault{Installation: w.chain.Installation, Kind: kind, Sequence: sequence, Decision: d, Detail: fmt.Sprintf(format, args...)})
}

func (w *chainWalk) step(ctx context.Context, d StoredDecision) error {
	switch {
	case d.Sequence != w.sequence+1:
		w.fault(ChainRemoved, w.sequence+1, 0, "decisions %d to %d of the chain are missing", w.sequence+1, d.Sequence-1)
	case d.PreviousHash != w.previous:
		elsewhere, err := w.knows(ctx, d.PreviousHash)
		if err != nil {
			return err
		}
		if elsewhere {
			w.fault(ChainReordered, d.Sequence, d.ID, "it was written behind another decision than the one that it follows now")
		} else {
			w.fault(ChainRemoved, d.Sequence, d.ID, "the decision that it was written behind is missing or was changed together with its hash")
		}
	}
	if d.StoredSum != d.Hash() {
		w.fault(ChainChanged, d.Sequence, d.ID, "its content does not have the hash that was stored with it")
	}
	w.sequence, w.previous = d.Sequence, d.StoredSum
	w.checked++
	return nil
}

// knows reports whether a hash is that of another decision of the chain.
func (w *chainWalk) knows(ctx context.Context, hash string) (bool, error) {
	var found bool
	err := w.store.queryOne(ctx, `
		-- name: FindHash
		SELECT EXISTS (SELECT FROM decision WHERE installation_id = $1 AND hash = $2)`, []any{w.chain.Installation, hash}, &found)
	if err != nil {
		return false, fmt.Errorf("look for a hash of installation %d: %w", w.chain.Installation, err)
	}
	return found, nil
}

// tip compares the end with what the chain's own row says, read anew: decisions may have been added during the walk.
func (w *chainWalk) tip(ctx context.Context) error {
	var sequence int64
	var hash string
	err := w.store.queryOne(ctx, `
		-- name: VerifyTip
		SELECT sequence, hash FROM decision_chain WHERE installation_id = $1`, []any{w.chain.Installation}, &sequence, &hash)
	if errors.Is(err, pgx.ErrNoRows) {
		if w.sequence == 0 {
			return nil // nothing was ever decided
		}
		w.fault(ChainTail, w.sequence, 0, "the chain's own row is missing")
		return nil
	}
	if err != nil {
		return fmt.Errorf("verify chain tip of installation %d: %w", w.chain.Installation, err)
	}
	var later bool
	if sequence > w.sequence {
		if err := w.store.queryOne(ctx, `
			-- name: VerifyLater
			SELECT EXISTS (SELECT FROM decision WHERE installation_id = $1 AND sequence > $2)`, []any{w.chain.Installation, w.sequence}, &later); err != nil {
			return fmt.Errorf("verify chain tip of installation %d: %w", w.chain.Installation, err)
		}
	}
	switch {
	case later: // it grew meanwhile; what came later is the next walk's
	case sequence > w.sequence:
		w.fault(ChainTail, w.sequence+1, 0, "the newest decisions are missing: the chain ends at %d and should at %d", w.sequence, sequence)
	case sequence < w.sequence || hash != w.previous:
		w.fault(ChainTail, w.sequence, 0, "the chain's own row does not name its newest decision")
	}
	return nil
}

package explain

import (
	"context"
	"errors"
	"time"

	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

// Pull is everything there is to say of one pull request now.
type Pull struct {
	Installation int64       `json:"installation"`
	RepositoryID int64       `json:"repository_id"`
	Repository   string      `json:"repository"`
	Number       int         `json:"number"`
	Title        string      `json:"title"`
	Author       string      `json:"author"`
	BaseRef      string      `json:"base_ref"`
	Head         string      `json:"head_sha"`
	Open         bool        `json:"open"`
	Merged       bool        `json:"merged,omitempty"`
	State        store.State `json:"state"`
	Since        time.Time   `json:"since,omitzero"`
	// NextStep is the one thing to do next; of a pull request whose work is under way, what it waits for.
	NextStep string   `json:"next_step"`
	Waiting  []string `json:"waiting_on"`
	// Ask is the smallest set of them whose approvals are enough.
	Ask  []string `json:"ask,omitempty"`
	Work Work     `json:"work"`
	// Decision is the one that counts now; nil when none does. Last is the newest one there is, where that is another: what it
	// said no longer counts.
	Decision *Decision `json:"decision,omitempty"`
	Last     *Decision `json:"last_decision,omitempty"`
	// History is the newest part of what was decided, the newest first.
	History []Entry `json:"history"`
}

// Decision is one decision with its verdict and what it rests on.
type Decision struct {
	Entry
	Conclusion policy.Conclusion `json:"verdict"`
	// Pull is the part of the verdict about the pull request that was asked for; nil when the decision does not name it.
	Pull     *policy.PullVerdict `json:"pull,omitempty"`
	Verdict  policy.Verdict      `json:"whole_verdict"`
	Evidence Evidence            `json:"evidence"`
	// Problem says why the row could not be read by this release; then verdict and evidence are empty.
	Problem string `json:"problem,omitempty"`
}

// Entry is one line of a history.
type Entry struct {
	ID             int64     `json:"id"`
	Number         int       `json:"trigger"`
	Head           string    `json:"head_sha"`
	HeadGeneration int64     `json:"head_generation"`
	Check          string    `json:"check"` // the conclusion that the check showed
	Title          string    `json:"title"`
	Reason         string    `json:"reason"`
	DeliveryID     string    `json:"delivery_id,omitempty"`
	RunID          int64     `json:"check_run_id"`
	Outcome        string    `json:"outcome"` // intended, confirmed, reset
	RequestedAt    time.Time `json:"requested_at"`
	DecidedAt      time.Time `json:"decided_at"`
	SettledAt      time.Time `json:"settled_at,omitzero"`
}

// HistoryLength is how many decisions a Pull carries; ReadHistory reads on.
const HistoryLength = 20

// Find is Read by the repository's name. Errors: store.ErrNotFound.
func Find(ctx context.Context, s *store.Store, fullName string, number int) (Pull, error) {
	key, err := s.FindPull(ctx, fullName, number)
	if err != nil {
		return Pull{}, err
	}
	return Read(ctx, s, key)
}

// Read explains one pull request. Errors: store.ErrNotFound, or the database's.
func Read(ctx context.Context, s *store.Store, key store.PullKey) (Pull, error) {
	return ReadWith(ctx, s, key, func(ctx context.Context, id store.DecisionID, number int) (*Decision, error) {
		return ReadDecision(ctx, s, id, number)
	})
}

// ReadWith is Read for who remembers decisions: what a decision says never changes, but for its outcome.
func ReadWith(ctx context.Context, s *store.Store, key store.PullKey, decision func(ctx context.Context, id store.DecisionID, number int) (*Decision, error)) (Pull, error) {
	row, err := s.ReadPull(ctx, key)
	if err != nil {
		return Pull{}, err
	}
	p := Pull{
		Installation: int64(key.Installation), RepositoryID: int64(key.Repository), Repository: row.FullName, Number: key.Number, Title: row.Title,
		Author: row.Author, BaseRef: row.BaseRef, Head: string(row.Head), Open: row.Open, Merged: row.Merged, State: row.State, Since: row.Since,
		Waiting: row.Waiting, Work: workOf(row),
	}
	if p.History, err = ReadHistory(ctx, s, key, row.Head, 0, HistoryLength); err != nil {
		return Pull{}, err
	}
	id, to := row.Decision, &p.Decision
	if id == 0 && len(p.History) > 0 {
		id, to = store.DecisionID(p.History[0].ID), &p.Last
	}
	if id != 0 {
		if *to, err = decision(ctx, id, key.Number); err != nil && !errors.Is(err, store.ErrNotFound) {
			return Pull{}, err
		}
	}
	if p.Decision != nil {
		p.Ask = Ask(p.Decision.Pull, p.Author)
	}
	p.NextStep = p.nextStep(row)
	return p, nil
}

func (p *Pull) nextStep(row store.PullRow) string {
	if p.Decision != nil {
		if p.Decision.Pull != nil && !p.Decision.Pull.Conclusion.Approved() {
			return p.Decision.Pull.NextStep
		}
		return p.Decision.Verdict.NextStep
	}
	switch {
	case !p.Open && p.Merged:
		return "nothing: it is merged"
	case !p.Open:
		return "nothing: it is closed"
	case row.State == store.StateUnmanaged:
		return "nothing: no policy file asks for a check here"
	default:
		return "wait: " + p.Work.Says
	}
}

// ReadHistory reads a part of what was decided about a pull request, the newest first, below the decision before (0: from the newest).
func ReadHistory(ctx context.Context, s *store.Store, key store.PullKey, head store.SHA, before int64, limit int) ([]Entry, error) {
	lines, err := s.ListPullDecisions(ctx, key, head, store.DecisionID(before), limit)
	if err != nil {
		return nil, err
	}
	history := make([]Entry, 0, len(lines))
	for _, d := range lines {
		history = append(history, EntryOf(d))
	}
	return history, nil
}

// EntryOf is a decision's line.
func EntryOf(d store.DecisionLine) Entry {
	return Entry{
		ID: int64(d.ID), Number: d.Number, Head: string(d.Head), HeadGeneration: int64(d.HeadGeneration), Check: d.Conclusion, Title: d.Title, Reason: d.Reason,
		DeliveryID: string(d.DeliveryID), RunID: d.RunID, Outcome: d.Outcome, RequestedAt: d.RequestedAt, DecidedAt: d.DecidedAt, SettledAt: d.SettledAt,
	}
}

// ReadDecision reads one decision, with the part of it that is about pull request number (0: the trigger's). Errors: store.ErrNotFound,
// or the database's.
func ReadDecision(ctx context.Context, s *store.Store, id store.DecisionID, number int) (*Decision, error) {
	stored, err := s.GetDecision(ctx, id)
	if err != nil {
		return nil, err
	}
	d := DecisionOf(stored, number)
	return &d, nil
}

// DecisionOf reads a stored decision's texts. What this release cannot read is a Problem, and no error: the row is there.
func DecisionOf(d store.StoredDecision, number int) Decision {
	out := Decision{Entry: EntryOf(LineOf(d))}
	verdict, err := policy.DecodeVerdict([]byte(d.Verdict))
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	snapshot, err := policy.DecodeSnapshot([]byte(d.Evidence))
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	out.Verdict, out.Conclusion = verdict, verdict.Conclusion
	if number == 0 {
		number = d.Number
	}
	for i := range verdict.Pulls {
		if verdict.Pulls[i].Number == number {
			out.Pull = &verdict.Pulls[i]
		}
	}
	out.Evidence = EvidenceOf(snapshot, number)
	out.Evidence.Digest = d.EvidenceDigest
	return out
}

// LineOf is a stored decision without its texts.
func LineOf(d store.StoredDecision) store.DecisionLine {
	return store.DecisionLine{
		ID: d.ID, Installation: d.Installation, Sequence: d.Sequence, Repository: d.Head.Repository, FullName: d.FullName, Number: d.Number, Head: d.Head.SHA,
		HeadGeneration: d.HeadGeneration, DeliveryID: d.DeliveryID, Reason: d.Reason, Conclusion: d.Decision.Conclusion, Title: d.Title, RunID: d.RunID,
		Outcome: d.Outcome, RequestedAt: d.RequestedAt, DecidedAt: d.DecidedAt, SettledAt: d.SettledAt,
	}
}

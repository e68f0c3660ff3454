package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// The reads of this file and its neighbours are what the console and the command line show (decision 0170): they change nothing,
// and nothing that decides rests on them.

// PullLine is one open pull request in a list.
type PullLine struct {
	Key      PullKey
	FullName string
	Title    string
	Author   string
	BaseRef  string
	Head     SHA
	State    State
	// NextStep is the one thing to do next, while a decision counts; plain text, not escaped.
	NextStep string
	Waiting  []string // owners, lower case
	// Since: from when on it has stood like this without a break; before the first decision, since it was asked for.
	Since     time.Time
	UpdatedAt time.Time
	// Decision that counts now, 0 when none does.
	Decision DecisionID
	// Conclusion of the check that the head shows, "" when no decision counts.
	Conclusion string
}

// PullOrder is an order of a list. The zero value is the most recently changed first.
type PullOrder string

// The orders.
const (
	OrderRecent PullOrder = ""
	OrderOldest PullOrder = "oldest" // those that have stood like this for longest, first
)

// PullFilter narrows a list of open pull requests. The zero value lists everything.
type PullFilter struct {
	Installation InstallationID
	FullName     string // owner/name, or owner/ for everything of one account
	Owner        string // waits on this owner, as in CODEOWNERS
	States       []State
	// OlderThan keeps what has stood like this for at least so long.
	OlderThan time.Duration
	Order     PullOrder
	// Only, when not nil, is everything that the reader may see: an empty list shows nothing.
	Only []RepositoryID
	// After continues behind a line of an earlier page, in the same order.
	After *PullLine
	Limit int // 0 means 50; at most 500
}

// pullLineColumns is one line; the joins are pullLineJoins.
const pullLineColumns = `p.installation_id, p.repository_id, p.number, coalesce(r.full_name, ''), p.title, p.author_login, p.base_ref, p.head_sha,
	x.state, CASE WHEN x.counts THEN s.next_step ELSE '' END, x.since, p.updated_at,
	CASE WHEN x.counts THEN s.decision_id ELSE 0 END`

// pullLineJoins: a standing counts while its decision is the one that the head published for its newest generation and nothing
// waits to be revoked. Everything else is what the work is doing.
const pullLineJoins = `
	LEFT JOIN repository r USING (installation_id, repository_id)
	LEFT JOIN head h USING (installation_id, repository_id, head_sha)
	LEFT JOIN evaluation e USING (installation_id, repository_id, number)
	LEFT JOIN standing s ON (s.installation_id, s.repository_id, s.number) = (p.installation_id, p.repository_id, p.number)
	CROSS JOIN LATERAL (SELECT coalesce(s.head_sha = p.head_sha AND h.published_decision_id = s.decision_id
		AND h.published_generation = h.generation AND h.invalidated_generation = h.generation, false) AS counts) AS c
	CROSS JOIN LATERAL (SELECT c.counts,
		CASE WHEN c.counts THEN s.state
			WHEN h.invalidated_generation < h.generation THEN CASE WHEN h.run_id IS NULL THEN 'evaluating' ELSE 'revoking' END
			WHEN e.number IS NOT NULL AND NOT e.recheck THEN 'evaluating'
			ELSE 'unmanaged' END AS state,
		CASE WHEN c.counts THEN s.since ELSE coalesce(e.requested_at, h.requested_at, p.updated_at) END AS since) AS x`

func scanPullLine(row pgx.CollectableRow) (PullLine, error) {
	var l PullLine
	err := row.Scan(&l.Key.Installation, &l.Key.Repository, &l.Key.Number, &l.FullName, &l.Title, &l.Author, &l.BaseRef, &l.Head,
		&l.State, &l.NextStep, &l.Since, &l.UpdatedAt, &l.Decision, &l.Conclusion, &l.Waiting)
	return l, err
}

// ListOpen lists open pull requests, a page at a time: the next page is After the last line of this one. A line that changed
// meanwhile may be shown twice or not at all; none is shown that Only leaves out.
func (s *Store) ListOpen(ctx context.Context, f PullFilter) ([]PullLine, error) {
	where, args := f.where()
	key, order := "p.updated_at", "p.updated_at DESC, p.installation_id, p.repository_id, p.number"
	from, outer := "pull p"+pullLineJoins, "updated_at DESC, installation_id, repository_id, number"
	if f.Order == OrderOldest {
		key, order, outer = "x.since", "x.since, p.installation_id, p.repository_id, p.number", "since, installation_id, repository_id, number"
		if f.decided() { // a standing's since is then the order, and has an index
			key, order = "s.since", "s.since, s.installation_id, s.repository_id, s.number"
			where += " AND x.counts"
		}
	}
	if a := f.After; a != nil {
		at, behind := a.UpdatedAt, "("+key+" < @at OR ("+key+" = @at AND (p.installation_id, p.repository_id, p.number) > (@after_installation, @after_repository, @after_number)))"
		if f.Order == OrderOldest {
			at, behind = a.Since, "("+key+", p.installation_id, p.repository_id, p.number) > (@at, @after_installation, @after_repository, @after_number)"
		}
		where += " AND " + behind
		args["at"], args["after_installation"], args["after_repository"], args["after_number"] = at, a.Key.Installation, a.Key.Repository, a.Key.Number
	}
	// The owners and the check are looked up for the page only.
	list, err := queryAll(ctx, s, `
		-- name: ListOpen
		WITH page AS (
			SELECT `+pullLineColumns+` AS decision_id FROM `+from+` WHERE `+where+` ORDER BY `+order+` LIMIT @limit
		)
		SELECT page.*, coalesce((SELECT conclusion FROM decision d WHERE d.decision_id = page.decision_id), ''),
			CASE WHEN page.decision_id = 0 THEN '{}' ELSE ARRAY(SELECT w.owner FROM waiting w
				WHERE (w.installation_id, w.repository_id, w.number) = (page.installation_id, page.repository_id, page.number) ORDER BY w.owner) END
		FROM page ORDER BY `+outer, []any{args}, scanPullLine)
	if err != nil {
		return nil, fmt.Errorf("list open pull requests: %w", err)
	}
	return list, nil
}

// decided: only what a decision says is asked for.
func (f PullFilter) decided() bool {
	for _, s := range f.States {
		switch s {
		case StateApproved, StateReleased, StateMissing, StateBlocked:
		default:
			return false
		}
	}
	return len(f.States) > 0
}

// where names only the conditions that are asked for, so that each combination has the plan it needs.
func (f PullFilter) where() (string, pgx.NamedArgs) {
	where, args := "p.state = 'open' AND r.gone_at IS NULL", pgx.NamedArgs{"limit": boundedLimit(f.Limit)}
	for _, c := range []struct {
		asked bool
		sql   string
		name  string
		value any
	}{
		{f.Installation != 0, "p.installation_id = @installation", "installation", f.Installation},
		{f.Only != nil, "p.repository_id = ANY (@only::bigint[])", "only", numbersOf(f.Only)},
		{f.FullName != "" && !strings.HasSuffix(f.FullName, "/"), "r.full_name = lower(@name)", "name", f.FullName},
		{strings.HasSuffix(f.FullName, "/"), "starts_with(r.full_name, lower(@name))", "name", f.FullName},
		{f.Owner != "", `x.counts AND EXISTS (SELECT FROM waiting w WHERE w.owner = lower(@owner)
			AND (w.installation_id, w.repository_id, w.number) = (p.installation_id, p.repository_id, p.number))`, "owner", f.Owner},
		{len(f.States) > 0 && f.decided(), "x.counts AND s.state = ANY (@states::text[])", "states", textsOf(f.States)},
		{len(f.States) > 0 && !f.decided(), "x.state = ANY (@states::text[])", "states", textsOf(f.States)},
		{f.OlderThan > 0, "x.since <= now() - make_interval(secs => @older::float8)", "older", seconds(f.OlderThan)},
	} {
		if c.asked {
			where += " AND " + c.sql
			args[c.name] = c.value
		}
	}
	return where, args
}

func boundedLimit(n int) int {
	if n <= 0 {
		return 50
	}
	return min(n, 500)
}

func textsOf[T ~string](list []T) []string {
	texts := make([]string, len(list))
	for i, t := range list {
		texts[i] = string(t)
	}
	return texts
}

// FindPull finds a pull request by its repository's name, in whichever installation it is; where a repository went from one
// installation to another, the one that is not gone. Errors: ErrNotFound.
func (s *Store) FindPull(ctx context.Context, fullName string, number int) (PullKey, error) {
	key := PullKey{Number: number}
	err := s.queryOne(ctx, `
		-- name: FindPull
		SELECT p.installation_id, p.repository_id FROM repository r JOIN pull p USING (installation_id, repository_id)
			LEFT JOIN installation i USING (installation_id)
		WHERE r.full_name = lower($1) AND p.number = $2
		ORDER BY r.gone_at IS NOT NULL, i.gone_at IS NOT NULL, r.updated_at DESC, p.installation_id, p.repository_id LIMIT 1`,
		[]any{fullName, number}, &key.Installation, &key.Repository)
	return key, rowError(err, ErrNotFound, "find pull request %d of %s", number, fullName)
}

// RepositoryView is a repository by its name.
type RepositoryView struct {
	Installation InstallationID
	Repository   RepositoryID
	FullName     string
	Gone         bool
}

// FindRepository finds a repository by its name, as FindPull does. Errors: ErrNotFound.
func (s *Store) FindRepository(ctx context.Context, fullName string) (RepositoryView, error) {
	var v RepositoryView
	err := s.queryOne(ctx, `
		-- name: FindRepository
		SELECT r.installation_id, r.repository_id, r.full_name, r.gone_at IS NOT NULL OR i.gone_at IS NOT NULL
		FROM repository r LEFT JOIN installation i USING (installation_id) WHERE r.full_name = lower($1)
		ORDER BY 4, r.updated_at DESC, r.installation_id, r.repository_id LIMIT 1`, []any{fullName}, &v.Installation, &v.Repository, &v.FullName, &v.Gone)
	return v, rowError(err, ErrNotFound, "find repository %s", fullName)
}

// PullRow is one pull request, open or not, with where it stands and where its work is.
type PullRow struct {
	PullLine
	Open, Merged bool
	Work         Work
}

// ReadPull reads one pull request with its work. Errors: ErrNotFound.
func (s *Store) ReadPull(ctx context.Context, key PullKey) (PullRow, error) {
	list, err := queryAll(ctx, s, `
		-- name: ReadPull
		SELECT p.state = 'open', p.merged, `+pullLineColumns+`, coalesce((SELECT conclusion FROM decision d WHERE x.counts AND d.decision_id = s.decision_id), ''),
			CASE WHEN x.counts THEN ARRAY(SELECT w.owner FROM waiting w
				WHERE (w.installation_id, w.repository_id, w.number) = (p.installation_id, p.repository_id, p.number) ORDER BY w.owner) ELSE '{}' END
		FROM pull p`+pullLineJoins+`
		WHERE p.installation_id = $1 AND p.repository_id = $2 AND p.number = $3`, []any{key.Installation, key.Repository, key.Number}, scanPullRow)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return PullRow{}, fmt.Errorf("read %s: %w", key, err)
	}
	p := list[0]
	if p.Work, err = s.readWork(ctx, key, p.Head); err != nil {
		return PullRow{}, fmt.Errorf("read the work of %s: %w", key, err)
	}
	return p, nil
}

func scanPullRow(row pgx.CollectableRow) (PullRow, error) {
	var p PullRow
	l := &p.PullLine
	err := row.Scan(&p.Open, &p.Merged, &l.Key.Installation, &l.Key.Repository, &l.Key.Number, &l.FullName, &l.Title, &l.Author, &l.BaseRef, &l.Head,
		&l.State, &l.NextStep, &l.Since, &l.UpdatedAt, &l.Decision, &l.Conclusion, &l.Waiting)
	return p, err
}

// DecisionLine is a decision without its evidence, verdict and texts, for lists.
type DecisionLine struct {
	ID             DecisionID
	Installation   InstallationID
	Sequence       int64
	Repository     RepositoryID
	FullName       string
	Number         int // the trigger's pull request; a head that several share has one decision for all
	Head           SHA
	HeadGeneration Generation
	DeliveryID     DeliveryID
	Reason         string
	Conclusion     string
	Title          string
	RunID          int64
	Outcome        string
	RequestedAt    time.Time
	DecidedAt      time.Time
	SettledAt      time.Time
}

const decisionLineColumns = `decision_id, installation_id, sequence, repository_id, full_name, number, head_sha, head_generation, delivery_id, reason,
	conclusion, title, check_run_id, outcome, requested_at, decided_at, settled_at`

func scanDecisionLine(row pgx.CollectableRow) (DecisionLine, error) {
	var d DecisionLine
	var settled *time.Time
	err := row.Scan(&d.ID, &d.Installation, &d.Sequence, &d.Repository, &d.FullName, &d.Number, &d.Head, &d.HeadGeneration, &d.DeliveryID, &d.Reason,
		&d.Conclusion, &d.Title, &d.RunID, &d.Outcome, &d.RequestedAt, &d.DecidedAt, &settled)
	d.SettledAt = timeOf(settled)
	return d, err
}

// ListPullDecisions lists what was decided about one pull request, the newest first: the decisions it triggered, and those of the
// head it is at now, which another pull request or a shared commit may have triggered. before 0 starts at the newest.
func (s *Store) ListPullDecisions(ctx context.Context, key PullKey, head SHA, before DecisionID, limit int) ([]DecisionLine, error) {
	list, err := queryAll(ctx, s, `
		-- name: ListPullDecisions
		SELECT `+decisionLineColumns+` FROM (
			(SELECT `+decisionLineColumns+` FROM decision
				WHERE installation_id = $1 AND repository_id = $2 AND number = $3 AND ($5 = 0 OR decision_id < $5) ORDER BY decision_id DESC LIMIT $6)
			UNION
			(SELECT `+decisionLineColumns+` FROM decision
				WHERE head_sha = $4 AND repository_id = $2 AND installation_id = $1 AND ($5 = 0 OR decision_id < $5) ORDER BY decision_id DESC LIMIT $6)
		) AS d ORDER BY decision_id DESC LIMIT $6`,
		[]any{key.Installation, key.Repository, key.Number, head, before, boundedLimit(limit)}, scanDecisionLine)
	if err != nil {
		return nil, fmt.Errorf("list decisions of %s: %w", key, err)
	}
	return list, nil
}

// DecisionFilter narrows a list of decisions. The zero value lists everything.
type DecisionFilter struct {
	Installation InstallationID
	FullName     string // needs Installation and Repository to be fast; FindRepository knows them
	Repository   RepositoryID
	Number       int
	Outcome      string // intended, confirmed, reset; "" all
	Since, Until time.Time
	Before       DecisionID // continue below this one; 0 starts at the newest
	Limit        int
}

// ListDecisionLines lists decisions, the newest first.
func (s *Store) ListDecisionLines(ctx context.Context, f DecisionFilter) ([]DecisionLine, error) {
	where, args := f.where()
	args["limit"] = boundedLimit(f.Limit)
	list, err := queryAll(ctx, s, `
		-- name: ListDecisionLines
		SELECT `+decisionLineColumns+` FROM decision WHERE `+where+` ORDER BY decision_id DESC LIMIT @limit`, []any{args}, scanDecisionLine)
	if err != nil {
		return nil, fmt.Errorf("list decisions: %w", err)
	}
	return list, nil
}

// ListWholeDecisions lists decisions with their evidence and verdict, the newest first, at most 100 at a time: they are large.
func (s *Store) ListWholeDecisions(ctx context.Context, f DecisionFilter) ([]StoredDecision, error) {
	where, args := f.where()
	args["limit"] = min(boundedLimit(f.Limit), 100)
	list, err := queryAll(ctx, s, `
		-- name: ListWholeDecisions
		SELECT `+decisionColumns+` FROM decision WHERE `+where+` ORDER BY decision_id DESC LIMIT @limit`, []any{args}, scanDecision)
	if err != nil {
		return nil, fmt.Errorf("read decisions: %w", err)
	}
	return list, nil
}

// where names only the conditions that are asked for, so that each combination has the plan it needs.
func (f DecisionFilter) where() (string, pgx.NamedArgs) {
	where, args := "true", pgx.NamedArgs{}
	for _, c := range []struct {
		asked bool
		sql   string
		name  string
		value any
	}{
		{f.Installation != 0, "installation_id = @installation", "installation", f.Installation},
		{f.Repository != 0, "repository_id = @repository", "repository", f.Repository},
		{f.FullName != "", "full_name = lower(@name)", "name", f.FullName},
		{f.Number != 0, "number = @number", "number", f.Number},
		{f.Outcome != "", "outcome = @outcome", "outcome", f.Outcome},
		{!f.Since.IsZero(), "decided_at >= @since", "since", f.Since},
		{!f.Until.IsZero(), "decided_at < @until", "until", f.Until},
		{f.Before != 0, "decision_id < @before", "before", f.Before},
	} {
		if c.asked {
			where += " AND " + c.sql
			args[c.name] = c.value
		}
	}
	return where, args
}

// CurrentDecision is the decision that counts for a pull request now. Errors: ErrNotFound when none does.
func (s *Store) CurrentDecision(ctx context.Context, key PullKey) (StoredDecision, error) {
	var id DecisionID
	err := s.queryOne(ctx, `
		-- name: CurrentDecision
		SELECT s.decision_id FROM pull p`+pullLineJoins+`
		WHERE p.installation_id = $1 AND p.repository_id = $2 AND p.number = $3 AND x.counts`, []any{key.Installation, key.Repository, key.Number}, &id)
	if errors.Is(err, pgx.ErrNoRows) {
		return StoredDecision{}, fmt.Errorf("current decision of %s: %w", key, ErrNotFound)
	}
	if err != nil {
		return StoredDecision{}, fmt.Errorf("current decision of %s: %w", key, err)
	}
	return s.GetDecision(ctx, id)
}

// OwnerLine is one owner that pull requests wait for.
type OwnerLine struct {
	Owner  string
	Pulls  int
	Oldest time.Time // since when the first of them has been waiting
	// Problems are codes of ownership health that the evidence shows of this owner.
	Problems []string
}

// ListOwners lists the owners that open pull requests wait for, the one that has been waited for longest first. only, when not
// nil, is everything the reader may see. after continues behind a line.
func (s *Store) ListOwners(ctx context.Context, only []RepositoryID, after *OwnerLine, limit int) ([]OwnerLine, error) {
	args := pgx.NamedArgs{"everything": only == nil, "only": numbersOf(only), "limit": boundedLimit(limit), "after": after != nil, "oldest": time.Time{}, "owner": ""}
	if after != nil {
		args["oldest"], args["owner"] = after.Oldest, after.Owner
	}
	list, err := queryAll(ctx, s, `
		-- name: ListOwners
		SELECT w.owner, count(*)::integer, min(w.since), array_agg(DISTINCT w.problem) FILTER (WHERE w.problem <> '')
		FROM waiting w JOIN standing s USING (installation_id, repository_id, number) JOIN pull p USING (installation_id, repository_id, number)
			JOIN head h ON h.published_decision_id = s.decision_id
			LEFT JOIN repository r ON (r.installation_id, r.repository_id) = (w.installation_id, w.repository_id)
		WHERE p.state = 'open' AND r.gone_at IS NULL AND (@everything::boolean OR w.repository_id = ANY (@only::bigint[]))
			AND coalesce(s.head_sha = p.head_sha AND h.head_sha = p.head_sha AND h.published_generation = h.generation AND h.invalidated_generation = h.generation, false)
		GROUP BY w.owner HAVING NOT @after::boolean OR (min(w.since), w.owner) > (@oldest::timestamptz, @owner::text)
		ORDER BY min(w.since), w.owner LIMIT @limit`, []any{args}, func(row pgx.CollectableRow) (OwnerLine, error) {
		var l OwnerLine
		err := row.Scan(&l.Owner, &l.Pulls, &l.Oldest, &l.Problems)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("list owners: %w", err)
	}
	return list, nil
}

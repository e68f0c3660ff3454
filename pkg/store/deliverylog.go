package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// GapKind says how a delivery came to be missed.
type GapKind string

// The kinds.
const (
	GapFailed  GapKind = "failed"  // no attempt that GitHub made was answered with a success
	GapMissing GapKind = "missing" // GitHub calls it delivered, and this database does not know it
)

// GapState says what became of a missed delivery.
type GapState string

// The states; all but open are final, until a later attempt succeeds.
const (
	GapOpen         GapState = "open"
	GapFilled       GapState = "filled"       // it is stored
	GapAcknowledged GapState = "acknowledged" // a later attempt was acknowledged and, as before, asked for nothing
	GapRefused      GapState = "refused"      // ingress refuses what it says, every time
	GapGivenUp      GapState = "given_up"     // it was asked for as often as it may be
	GapExpired      GapState = "expired"      // GitHub no longer has it
)

// GapStates are the final states, for metrics.
var GapStates = []GapState{GapFilled, GapAcknowledged, GapRefused, GapGivenUp, GapExpired}

// The bounds of asking for one delivery.
const (
	gapFirstDelay     = 15 * time.Second
	gapCeiling        = 6 * time.Hour
	gapRecoveredDelay = 10 * time.Minute
	// GapAsks is how often a delivery that GitHub could not bring is asked for: with the delays above for more than two days.
	GapAsks = 16
	// GapRefusedAsks is how often one is asked for that was answered, and not taken.
	GapRefusedAsks = 2
)

// askLimitSQL: of what ingress read and will never take (RG-024…034), and of what it acknowledged before, less is asked.
var askLimitSQL = fmt.Sprintf("CASE WHEN kind = 'missing' OR status_code IN (400, 413, 422) THEN %d ELSE %d END", GapRefusedAsks, GapAsks)

// LogPosition is how far the App's delivery log was read. Times are GitHub's.
type LogPosition struct {
	ReadThrough time.Time // zero: never read
	// Resume, when not empty, is where a reading that was cut short goes on; at its end ReadThrough becomes ResumeTop.
	Resume    string
	ResumeTop time.Time
	// Accepted and Unreached are the newest attempts seen that succeeded, and that got no answer or a server's error.
	Accepted, Unreached time.Time
}

// ReadLogPosition reads it; before the first reading it is the zero LogPosition.
func (s *Store) ReadLogPosition(ctx context.Context) (LogPosition, error) {
	var p LogPosition
	var top, accepted, unreached *time.Time
	err := s.queryOne(ctx, `
		-- name: ReadLogPosition
		SELECT read_through, resume_cursor, resume_top, accepted_at, unreached_at FROM delivery_log`, nil,
		&p.ReadThrough, &p.Resume, &top, &accepted, &unreached)
	if err = rowError(err, ErrNotFound, "read the position in the delivery log"); errors.Is(err, ErrNotFound) {
		return LogPosition{}, nil
	}
	p.ResumeTop, p.Accepted, p.Unreached = timeOf(top), timeOf(accepted), timeOf(unreached)
	return p, err
}

// KeepLogPosition stores it. Accepted and Unreached never go back. May run twice.
func (s *Store) KeepLogPosition(ctx context.Context, p LogPosition) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: KeepLogPosition
		INSERT INTO delivery_log AS l (read_through, resume_cursor, resume_top, accepted_at, unreached_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (singleton) DO UPDATE SET read_through = excluded.read_through, resume_cursor = excluded.resume_cursor,
			resume_top = excluded.resume_top, accepted_at = greatest(l.accepted_at, excluded.accepted_at),
			unreached_at = greatest(l.unreached_at, excluded.unreached_at), read_at = now()
		RETURNING true`, []any{p.ReadThrough, p.Resume, nullTime(p.ResumeTop), nullTime(p.Accepted), nullTime(p.Unreached)}, &ok)
	if err != nil {
		return fmt.Errorf("keep the position in the delivery log: %w", err)
	}
	return nil
}

// LoggedDelivery is one delivery as a part of GitHub's log shows it: all attempts of one GUID, folded.
type LoggedDelivery struct {
	GUID         DeliveryID
	Event        string
	Action       string
	Installation InstallationID
	Repository   RepositoryID
	AttemptID    int64 // the newest attempt
	AttemptedAt  time.Time
	StatusCode   int
	Status       string
	Succeeded    bool // one of the attempts did
	Redelivered  bool // one of the attempts was asked for
	// Retained: where it was acknowledged, it should be stored; to find it missing means something.
	Retained bool
}

// GapCount is how many deliveries were newly found missed, or came to a final state.
type GapCount struct {
	Found   map[GapKind]int
	Settled map[GapState]int
}

// RecordLog folds a part of the log into the gaps: a delivery that failed and is not stored opens one; one that is stored, or
// of which a later attempt succeeded, closes its own. Parts may overlap and come in any order; it may run twice.
func (s *Store) RecordLog(ctx context.Context, log []LoggedDelivery) (GapCount, error) {
	count := GapCount{Found: map[GapKind]int{}, Settled: map[GapState]int{}}
	if len(log) == 0 {
		return count, nil
	}
	args := logColumns(log)
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		clear(count.Found)
		clear(count.Settled)
		// Of a missing one the success that GitHub reported is already known: only a newer one says anything.
		settled, err := collect[GapState](ctx, tx, `
			-- name: SettleLogged
			WITH log AS (`+unnestLog+`)
			UPDATE delivery_gap g SET state = CASE WHEN log.stored THEN 'filled' ELSE 'acknowledged' END, settled_at = now(),
				attempt_id = log.attempt_id, attempted_at = log.attempted_at, status_code = log.status_code, status = log.status
			FROM log WHERE g.guid = log.guid AND g.state NOT IN ('filled', 'acknowledged')
				AND (log.stored OR (log.succeeded AND (g.kind = 'failed' OR log.attempted_at > g.attempted_at)))
			RETURNING g.state`, args)
		if err != nil {
			return err
		}
		for _, state := range settled {
			count.Settled[state]++
		}
		// A redelivery that was acknowledged although nothing was stored is kept, closed: an older attempt that is read later must
		// not open it.
		found, err := collect[string](ctx, tx, `
			-- name: OpenGaps
			WITH log AS (`+unnestLog+`)
			INSERT INTO delivery_gap AS g (guid, event, action, installation_id, repository_id, kind, state, attempt_id, attempted_at, status_code, status, settled_at)
			SELECT guid, event, action, installation_id, repository_id, CASE WHEN succeeded AND NOT redelivered THEN 'missing' ELSE 'failed' END,
				CASE WHEN succeeded AND redelivered THEN 'acknowledged' ELSE 'open' END, attempt_id, attempted_at, status_code, status,
				CASE WHEN succeeded AND redelivered THEN now() END
			FROM log WHERE NOT stored AND (NOT succeeded OR redelivered OR retained) ORDER BY guid
			ON CONFLICT (guid) DO UPDATE SET kind = 'failed', attempt_id = excluded.attempt_id, attempted_at = excluded.attempted_at,
				status_code = excluded.status_code, status = excluded.status
				WHERE g.state = 'open' AND excluded.state = 'open' AND excluded.kind = 'failed' AND excluded.attempted_at > g.attempted_at
			RETURNING CASE WHEN xmax <> 0 THEN '' ELSE g.kind END`, args)
		for _, kind := range found {
			if kind != "" {
				count.Found[GapKind(kind)]++
			}
		}
		return err
	})
	if err != nil {
		return GapCount{}, fmt.Errorf("record %d logged deliveries: %w", len(log), err)
	}
	return count, nil
}

const unnestLog = `SELECT l.*, EXISTS (SELECT FROM delivery d WHERE d.delivery_id = l.guid) AS stored
	FROM unnest(@guids::text[], @events::text[], @actions::text[], @installations::bigint[], @repositories::bigint[], @attempts::bigint[],
		@times::timestamptz[], @codes::integer[], @statuses::text[], @succeeded::boolean[], @redelivered::boolean[], @retained::boolean[])
	AS l(guid, event, action, installation_id, repository_id, attempt_id, attempted_at, status_code, status, succeeded, redelivered, retained)`

func logColumns(log []LoggedDelivery) pgx.NamedArgs {
	n := len(log)
	guids, events, actions, statuses := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	installations, repositories, attempts := make([]int64, n), make([]int64, n), make([]int64, n)
	times, codes := make([]time.Time, n), make([]int32, n)
	succeeded, redelivered, retained := make([]bool, n), make([]bool, n), make([]bool, n)
	for i, l := range log {
		guids[i], events[i], actions[i], statuses[i] = string(l.GUID), l.Event, l.Action, l.Status
		installations[i], repositories[i], attempts[i] = int64(l.Installation), int64(l.Repository), l.AttemptID
		times[i], codes[i] = l.AttemptedAt, int32(l.StatusCode) //nolint:gosec // a status code
		succeeded[i], redelivered[i], retained[i] = l.Succeeded, l.Redelivered, l.Retained
	}
	return pgx.NamedArgs{
		"guids": guids, "events": events, "actions": actions, "installations": installations, "repositories": repositories, "attempts": attempts,
		"times": times, "codes": codes, "statuses": statuses, "succeeded": succeeded, "redelivered": redelivered, "retained": retained,
	}
}

func collect[T any](ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[T])
}

// Gap is one missed delivery as it is kept.
type Gap struct {
	GUID         DeliveryID
	Event        string
	Action       string
	Installation InstallationID
	Repository   RepositoryID
	Kind         GapKind
	State        GapState
	AttemptID    int64
	AttemptedAt  time.Time // GitHub's clock
	StatusCode   int
	Status       string
	Asks         int
	AskedAt      time.Time
	LastErr      string
	FoundAt      time.Time
	SettledAt    time.Time
}

const gapColumns = `guid, event, action, installation_id, repository_id, kind, state, attempt_id, attempted_at, status_code, status, asks, asked_at,
	last_error, found_at, settled_at`

func scanGap(row pgx.CollectableRow) (Gap, error) {
	var g Gap
	var asked, settled *time.Time
	err := row.Scan(&g.GUID, &g.Event, &g.Action, &g.Installation, &g.Repository, &g.Kind, &g.State, &g.AttemptID, &g.AttemptedAt,
		&g.StatusCode, &g.Status, &g.Asks, &asked, &g.LastErr, &g.FoundAt, &settled)
	g.AskedAt, g.SettledAt = timeOf(asked), timeOf(settled)
	return g, err
}

// SettleGaps closes the gaps that were stored meanwhile, and those that were asked for as often as they may be and whose last
// answer has had its time. May run twice.
func (s *Store) SettleGaps(ctx context.Context) (map[GapState]int, error) {
	states, err := queryAll(ctx, s, `
		-- name: SettleGaps
		UPDATE delivery_gap g SET settled_at = now(), state = CASE WHEN EXISTS (SELECT FROM delivery d WHERE d.delivery_id = g.guid) THEN 'filled'
			WHEN status_code IN (400, 413, 422) THEN 'refused' ELSE 'given_up' END
		WHERE state = 'open' AND (EXISTS (SELECT FROM delivery d WHERE d.delivery_id = g.guid) OR (next_ask_at <= now() AND asks >= `+askLimitSQL+`))
		RETURNING state`, nil, pgx.RowTo[GapState])
	if err != nil {
		return nil, fmt.Errorf("settle missed deliveries: %w", err)
	}
	count := map[GapState]int{}
	for _, state := range states {
		count[state]++
	}
	return count, nil
}

// TakeGap takes the next missed delivery that is due to be asked for, and counts the ask before it is made: authority first,
// since one such event decides about many pull requests, then what failed, then the oldest. recovered is the newest attempt of
// any delivery that GitHub saw succeed: one that failed before it has waited long enough after ten minutes. Errors: ErrNoWork.
func (s *Store) TakeGap(ctx context.Context, recovered time.Time) (Gap, error) {
	list, err := queryAll(ctx, s, `
		-- name: TakeGap
		UPDATE delivery_gap SET asks = asks + 1, asked_at = now(), last_error = '',
			next_ask_at = now() + make_interval(secs => least($2::float8, $1::float8 * power(2, least(asks, 30))))
		WHERE guid = (
			SELECT guid FROM delivery_gap WHERE state = 'open' AND asks < `+askLimitSQL+`
				AND (next_ask_at <= now() OR (attempted_at < $3 AND asked_at <= now() - make_interval(secs => $4)))
				AND NOT EXISTS (SELECT FROM delivery d WHERE d.delivery_id = guid)
			ORDER BY event IN ('pull_request', 'pull_request_review', 'check_run', 'issue_comment'), kind, attempted_at, guid
			LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING `+gapColumns, []any{seconds(gapFirstDelay), seconds(gapCeiling), nullTime(recovered), seconds(gapRecoveredDelay)}, scanGap)
	if err == nil && len(list) == 0 {
		err = ErrNoWork
	}
	if err != nil {
		return Gap{}, fmt.Errorf("take a missed delivery: %w", err)
	}
	return list[0], nil
}

// GapNotAsked records that GitHub did not take the request: expired says that it no longer has the delivery; otherwise it is due
// again after delay, and spend false gives the ask back. May run twice.
func (s *Store) GapNotAsked(ctx context.Context, g Gap, expired, spend bool, delay time.Duration, cause string) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: GapNotAsked
		UPDATE delivery_gap SET last_error = left($5, 1000), asks = CASE WHEN $3 THEN asks ELSE asks - 1 END,
			next_ask_at = greatest(next_ask_at, now() + make_interval(secs => $4)),
			state = CASE WHEN $2 THEN 'expired' ELSE state END, settled_at = CASE WHEN $2 THEN now() END
		WHERE guid = $1 AND asks = $6 AND state = 'open' RETURNING true`, []any{g.GUID, expired, spend, seconds(delay), cause, g.Asks}, &ok)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // it was settled meanwhile
	}
	if err != nil {
		return fmt.Errorf("record that delivery %s was not asked for: %w", g.GUID, err)
	}
	return nil
}

// ListGaps lists missed deliveries, the newest found first, at most limit: GitHub's delivery log with its gaps filled.
func (s *Store) ListGaps(ctx context.Context, limit int) ([]Gap, error) {
	list, err := queryAll(ctx, s, `
		-- name: ListGaps
		SELECT `+gapColumns+` FROM delivery_gap ORDER BY found_at DESC, guid LIMIT $1`, []any{limit}, scanGap)
	if err != nil {
		return nil, fmt.Errorf("list missed deliveries: %w", err)
	}
	return list, nil
}

// GapBacklog is what is still missed, for gauges.
type GapBacklog struct {
	Open   int
	Oldest time.Duration // since the oldest of them was found
}

// ReadGapBacklog counts it.
func (s *Store) ReadGapBacklog(ctx context.Context) (GapBacklog, error) {
	var b GapBacklog
	var oldest float64
	err := s.queryOne(ctx, `
		-- name: ReadGapBacklog
		SELECT count(*), coalesce(extract(epoch FROM now() - min(found_at)), 0)::float8 FROM delivery_gap WHERE state = 'open'`, nil, &b.Open, &oldest)
	if err != nil {
		return GapBacklog{}, fmt.Errorf("count missed deliveries: %w", err)
	}
	b.Oldest = time.Duration(oldest * float64(time.Second))
	return b, nil
}

// PruneGaps removes gaps found longer than age ago, whatever became of them, at most limit at a time. May run twice (RG-405).
func (s *Store) PruneGaps(ctx context.Context, age time.Duration, limit int) (int, error) {
	return s.prune(ctx, `
		-- name: PruneGaps
		WITH old AS (SELECT guid FROM delivery_gap WHERE found_at < now() - make_interval(secs => $1) ORDER BY found_at, guid LIMIT $2),
		gone AS (DELETE FROM delivery_gap g USING old WHERE g.guid = old.guid RETURNING 1)
		SELECT count(*) FROM gone`, age, limit, "missed deliveries")
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/test/bench/measure"
)

// result is a run's figures; rates are a second.
type result struct {
	settings
	version             string
	ingest, bare, limit float64
	half                float64 // what half load came to
	halfP50, halfP99    time.Duration
	fullP50, fullP99    time.Duration
	// What one cost in processor time, of this process with its senders and of the database.
	ingestCPU, bareCPU, limitCPU time.Duration
}

// measure takes each figure in turn, several times, so that what else the machine does falls on all of them.
func (w *world) measure(ctx context.Context) (result, error) {
	r := result{settings: w.settings}
	if err := w.bare.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&r.version); err != nil {
		return r, err
	}
	var ingest, bare, limit, ingestCPU, bareCPU, limitCPU []float64
	var latencies []time.Duration
	for round := range w.rounds {
		if err := w.empty(ctx); err != nil {
			return r, err
		}
		before := measure.CPUTime(w.pg.Pid())
		n, took, err := w.flood(ctx, w.ingress, round, 0)
		if err != nil {
			return r, fmt.Errorf("ingress: %w", err)
		}
		ingestCPU = append(ingestCPU, w.costOf(n, before))
		if err := w.stored(ctx, n); err != nil {
			return r, err
		}
		ingest, latencies = append(ingest, rate(n, w.each)), append(latencies, took...)
		if err := w.empty(ctx); err != nil {
			return r, err
		}
		before = measure.CPUTime(w.pg.Pid())
		if n, err = w.plain(ctx, round); err != nil {
			return r, fmt.Errorf("bare pgx: %w", err)
		}
		bareCPU = append(bareCPU, w.costOf(n, before))
		bare = append(bare, rate(n, w.each))
		before = measure.CPUTime(w.pg.Pid())
		if n, _, err = w.flood(ctx, w.limit, round, 0); err != nil {
			return r, fmt.Errorf("verifying server: %w", err)
		}
		limitCPU = append(limitCPU, w.costOf(n, before))
		limit = append(limit, rate(n, w.each))
	}
	r.ingest, r.bare, r.limit = measure.Median(ingest), measure.Median(bare), measure.Median(limit)
	r.ingestCPU, r.bareCPU, r.limitCPU = time.Duration(measure.Median(ingestCPU)), time.Duration(measure.Median(bareCPU)), time.Duration(measure.Median(limitCPU))
	r.fullP50, r.fullP99 = measure.Quantile(latencies, 0.5), measure.Quantile(latencies, 0.99)
	return r, w.halfLoad(ctx, &r)
}

// costOf is the processor time of one of n since before, in nanoseconds.
func (w *world) costOf(n int, before time.Duration) float64 {
	return float64(measure.CPUTime(w.pg.Pid())-before) / float64(max(n, 1))
}

// halfLoad sends at half of the measured rate, on a clock that does not wait for answers.
func (w *world) halfLoad(ctx context.Context, r *result) error {
	if err := w.empty(ctx); err != nil {
		return err
	}
	n, took, err := w.flood(ctx, w.ingress, w.rounds, r.ingest/2)
	if err != nil {
		return fmt.Errorf("ingress at half load: %w", err)
	}
	r.half, r.halfP50, r.halfP99 = rate(n, w.each), measure.Quantile(took, 0.5), measure.Quantile(took, 0.99)
	return w.stored(ctx, n)
}

// stored proves that each 202 is a row.
func (w *world) stored(ctx context.Context, want int) error {
	var rows int
	if err := w.bare.QueryRow(ctx, "SELECT count(*) FROM delivery").Scan(&rows); err != nil {
		return err
	}
	if rows != want {
		return fmt.Errorf("%d answers of 202 and %d deliveries in the database", want, rows)
	}
	return nil
}

// flood posts for the set time from all senders, as fast as they are answered, or perSecond of them in equal steps. A latency
// is counted from when the request was due.
func (w *world) flood(ctx context.Context, url string, round int, perSecond float64) (int, []time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: w.senders, DisableCompression: true}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	began := time.Now()
	var wg sync.WaitGroup
	for range w.senders {
		wg.Go(func() {
			var mine []time.Duration
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				all = append(all, mine...)
			}()
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				due := time.Now()
				if perSecond > 0 {
					due = began.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
					time.Sleep(time.Until(due))
				}
				if due.Sub(began) >= w.each {
					return
				}
				if err := w.post(ctx, client, url, round, i); err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
					return
				}
				mine = append(mine, time.Since(due))
			}
		})
	}
	wg.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return len(all), all, failed
}

func (w *world) post(ctx context.Context, client *http.Client, url string, round int, i int64) error {
	p := w.payloads[i%int64(len(w.payloads))]
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(p.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-GitHub-Delivery", fmt.Sprintf("%08d-%d", i, round))
	req.Header.Set("X-GitHub-Event", "pull_request")
	req.Header.Set("X-Hub-Signature-256", p.sign)
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("answer %d %s", resp.StatusCode, text)
	}
	return err
}

// The statements that somebody would write who wants the same rows: one transaction a delivery.
const (
	plainDelivery = `INSERT INTO delivery (delivery_id, event, action, installation_id, repository_id, number, head_sha, head_generation)
		VALUES ($1, 'pull_request', 'synchronize', 77, $2, $3, $4, $5)`
	plainPull = `INSERT INTO pull AS p (installation_id, repository_id, number, generation, head_sha, base_ref, title, github_updated_at)
		VALUES (77, $1, $2, 1, $3, 'main', 'Change widgets', '2026-05-01T10:00:00Z')
		ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET generation = p.generation + 1, head_sha = excluded.head_sha, updated_at = now()
		RETURNING generation`
	plainHead = `INSERT INTO head AS h (installation_id, repository_id, head_sha) VALUES (77, $1, $2)
		ON CONFLICT (installation_id, repository_id, head_sha) DO UPDATE SET generation = h.generation + 1, updated_at = now()
		RETURNING generation`
	plainEvaluation = `INSERT INTO evaluation AS e (installation_id, repository_id, number, generation, head_sha, head_generation, authority_epoch, delivery_id, reason)
		VALUES (77, $1, $2, $3, $4, $5, 1, $6, 'pull_request.synchronize')
		ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET generation = excluded.generation, head_sha = excluded.head_sha,
			head_generation = excluded.head_generation, available_at = now(), delivery_id = excluded.delivery_id`
)

// plain writes the same rows from as many connections, without HTTP, JSON or signatures.
func (w *world) plain(ctx context.Context, round int) (int, error) {
	var next, done atomic.Int64
	var failed atomic.Pointer[error]
	until := time.Now().Add(w.each)
	var wg sync.WaitGroup
	for range w.senders {
		wg.Go(func() {
			for time.Now().Before(until) && ctx.Err() == nil {
				i := next.Add(1) - 1
				if err := w.plainOne(ctx, w.payloads[i%int64(len(w.payloads))], fmt.Sprintf("%08d-%d", i, round)); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return int(done.Load()), ctx.Err()
}

func (w *world) plainOne(ctx context.Context, p payload, id string) error {
	return pgx.BeginFunc(ctx, w.bare, func(tx pgx.Tx) error {
		var pull, head int64
		if err := tx.QueryRow(ctx, plainPull, p.repo, p.number, p.head).Scan(&pull); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, plainHead, p.repo, p.head).Scan(&head); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, plainEvaluation, p.repo, p.number, pull, p.head, head, id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, plainDelivery, id, p.repo, p.number, p.head, head)
		return err
	})
}

func rate(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

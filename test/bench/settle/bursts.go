package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// bursts is the table of webhooks that come faster than they can be worked.
func bursts(ctx context.Context, s settings) (string, error) {
	var b strings.Builder
	b.WriteString("| webhooks | GitHub answers after | evaluations | requests | last check after the last webhook |\n|---|---|--:|--:|--:|\n")
	for _, rtt := range []time.Duration{0, s.rtt} {
		w, err := open(ctx, rtt, nil)
		if err != nil {
			return "", err
		}
		err = w.burst(ctx, &b)
		w.close()
		if err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func (w *world) burst(ctx context.Context, b *strings.Builder) error {
	all, err := w.pulls("acme/widgets", 200)
	if err != nil {
		return err
	}
	w.sim.ReleaseWebhooks(0)
	if err := w.settled(ctx); err != nil {
		return err
	}
	w.set(w.rtt)
	one := func(name string, webhooks int, gap time.Duration, of func(i int) pull) error {
		before, err := w.count(ctx, decisions)
		if err != nil {
			return err
		}
		w.sim.ResetRequests()
		began := time.Now()
		for i := range webhooks {
			p := of(i)
			if _, err := w.sim.Review(p.repo, p.number, "alice", "COMMENTED"); err != nil {
				return err
			}
			time.Sleep(time.Until(began.Add(time.Duration(i+1) * gap)))
		}
		sent := time.Now()
		if err := w.settled(ctx); err != nil {
			return err
		}
		took := time.Since(sent)
		after, err := w.count(ctx, decisions)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "| %s | %s | %d | %d | %.2f s |\n", name, w.rtt, after-before, len(w.sim.Requests()), took.Seconds())
		return nil
	}
	if err := one("50 for one pull request within a second", 50, 20*time.Millisecond, func(int) pull { return all[0] }); err != nil {
		return err
	}
	order := rand.New(rand.NewPCG(1, 2)).Perm(1000)
	return one("1,000 over 200 pull requests at once", 1000, 0, func(i int) pull { return all[order[i]%len(all)] })
}

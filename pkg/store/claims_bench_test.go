package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// BenchmarkClaims measures one claim and its deferral beside so many rows of each kind that cannot be claimed, in every queue:
// make bench PKG=./pkg/store BENCH=Claims. The million takes minutes to make and is left out by -short.
func BenchmarkClaims(b *testing.B) {
	for _, rows := range []int{10_000, 100_000, 1_000_000} {
		if rows > 100_000 && testing.Short() {
			continue
		}
		b.Run(fmt.Sprint(rows), func(b *testing.B) {
			db := storetest.New(b)
			seedPlans(db, 0, rows)
			db.Exec("VACUUM ANALYZE")
			invalidator, evaluator, fanout := db.Store(storetest.Invalidator), db.Store(storetest.Evaluator), db.Store(storetest.Fanout)
			for queue, claim := range map[string]func(context.Context) error{
				"invalidation": func(ctx context.Context) error {
					inv, err := invalidator.ClaimInvalidation(ctx, "bench", ttl)
					return errors.Join(err, invalidator.DeferInvalidation(ctx, inv, 0, "", false))
				},
				"evaluation": func(ctx context.Context) error {
					ev, err := evaluator.ClaimEvaluation(ctx, "bench", ttl)
					return errors.Join(err, evaluator.DeferEvaluation(ctx, ev, 0, "", false))
				},
				"authority": func(ctx context.Context) error {
					a, err := fanout.ClaimAuthority(ctx, "bench", ttl)
					return errors.Join(err, fanout.DeferAuthority(ctx, a, 0, "", false))
				},
			} {
				b.Run(queue, func(b *testing.B) {
					for b.Loop() {
						if err := claim(b.Context()); err != nil && !errors.Is(err, store.ErrLeaseLost) {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}

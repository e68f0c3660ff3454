package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/countersign/countersign/pkg/githubsim"
)

// floor is the share of corruptions that must be caught. What the description
// leaves optional cannot be missed, so it is below one.
const floor = 0.80

func main() {
	cache := flag.String("cache", "../../.cache/contract", "directory for the fetched descriptions")
	seed := flag.Uint64("seed", 1, "of the corruptions")
	each := flag.Int("each", 12, "corruptions of each answer and webhook")
	verbose := flag.Bool("v", false, "list the corruptions that were not caught")
	flag.Parse()
	r := &report{out: os.Stdout, random: rand.New(rand.NewPCG(*seed, 2)), each: *each, verbose: *verbose, called: map[string]bool{}} //nolint:gosec // reproducible
	if err := r.run(context.Background(), *cache); err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
}

// report is what a run found.
type report struct {
	out           io.Writer
	random        *rand.Rand
	each          int
	verbose       bool
	calls, hooks  int
	violations    []string
	called        map[string]bool // routes with a success
	tried, caught [corruptions]int
}

func (r *report) run(ctx context.Context, cache string) (err error) {
	defer func() {
		if p, is := recover().(error); is && p != nil {
			err = p
		}
	}()
	raw, err := restSource.fetch(ctx, cache)
	if err != nil {
		return err
	}
	schemaText, err := graphqlSource.fetch(ctx, cache)
	if err != nil {
		return err
	}
	schema, err := published(schemaText)
	if err != nil {
		return err
	}
	r.schema(schema)
	for _, version := range []string{"2022-11-28", "2026-03-10"} {
		if err := r.version(ctx, raw, schema, version); err != nil {
			return fmt.Errorf("API version %s: %w", version, err)
		}
	}
	r.coverage()
	return r.sum()
}

func wanted() map[string]bool {
	set := map[string]bool{}
	for _, route := range githubsim.Routes() {
		set[route.Method+" "+shape(route.Pattern)] = true
	}
	return set
}

func (r *report) schema(theirs *ast.Schema) {
	for _, wrong := range subset(githubsim.GraphQLSchema(), theirs) {
		r.violations = append(r.violations, "schema.graphql: "+wrong)
	}
}

func (r *report) version(ctx context.Context, raw []byte, schema *ast.Schema, version string) error {
	load1 := version
	if version == "2022-11-28" {
		load1 = "" // the description's own
	}
	d, err := load(ctx, raw, load1, wanted())
	if err != nil {
		return err
	}
	for _, play := range []func(*stage){(*stage).scenario, (*stage).clientRun} {
		s := newStage(ctx, version)
		play(s)
		exchanges, hooks, err := s.settle()
		s.close()
		if err != nil {
			return err
		}
		for _, x := range exchanges {
			r.exchange(ctx, d, schema, x)
		}
		for _, h := range hooks {
			r.hook(d, h)
		}
	}
	return nil
}

func (r *report) exchange(ctx context.Context, d *description, schema *ast.Schema, x exchange) {
	r.calls++
	if strings.HasSuffix(x.request.URL.Path, "/graphql") {
		if x.status == 200 {
			r.called["POST /graphql"] = true
			if err := checkGraphQL(schema, x.sent, x.body); err != nil {
				r.violations = append(r.violations, x.name()+": "+err.Error())
			}
			r.corruptions(x.name(), x.body, func(body []byte) bool { return checkGraphQL(schema, x.sent, body) != nil })
		}
		return
	}
	route, values := d.find(x.request.Method, x.request.URL.EscapedPath())
	if route != nil && x.status < 300 {
		r.called[x.request.Method+" "+shape(route.Path)] = true
	}
	if err := d.check(ctx, x); err != nil {
		r.violations = append(r.violations, err.Error())
		return
	}
	if route == nil || x.status >= 300 || !strings.HasPrefix(x.header.Get("Content-Type"), "application/json") {
		return
	}
	r.corruptions(x.name(), x.body, func(body []byte) bool { return d.checkAnswer(ctx, x, route, values, body) != nil })
}

func (r *report) hook(d *description, h hook) {
	r.hooks++
	if err := d.checkHook(h.event, h.action, h.body); err != nil {
		r.violations = append(r.violations, err.Error())
		return
	}
	r.corruptions("webhook "+h.event+"."+h.action, h.body, func(body []byte) bool { return d.checkHook(h.event, h.action, body) != nil })
}

// corruptions spoils an answer in random places and counts what the check notices.
func (r *report) corruptions(name string, body []byte, notices func([]byte) bool) {
	for i := range r.each {
		kind := corruption(i % int(corruptions))
		spoilt, where, is := corrupt(body, kind, r.random)
		if !is {
			continue
		}
		r.tried[kind]++
		if notices(spoilt) {
			r.caught[kind]++
		} else if r.verbose {
			fmt.Fprintf(r.out, "not caught: %s: %s\n", name, where)
		}
	}
}

// coverage: a route that was never called with success was never checked.
func (r *report) coverage() {
	for _, route := range githubsim.Routes() {
		name := route.Method + " " + shape(route.Pattern)
		if !r.called[name] && !notDescribed[name] {
			r.violations = append(r.violations, "never called with success: "+route.Method+" "+route.Pattern)
		}
	}
}

// notDescribed are other spellings of routes that the description has.
var notDescribed = map[string]bool{"GET /repos/{}/{}/contents": true, "GET /repos/{}/{}/contents/": true}

func (r *report) sum() error {
	slices.Sort(r.violations)
	r.violations = slices.Compact(r.violations)
	for _, v := range r.violations {
		fmt.Fprintln(r.out, "violation:", v)
	}
	tried, caught := 0, 0
	for kind := range corruptions {
		tried, caught = tried+r.tried[kind], caught+r.caught[kind]
		fmt.Fprintf(r.out, "%s: %d of %d caught (%.1f %%)\n", kind, r.caught[kind], r.tried[kind], percent(r.caught[kind], r.tried[kind]))
	}
	fmt.Fprintf(r.out, "contract: %d calls and %d webhooks checked, %d violations, %.1f %% of %d random corruptions caught\n",
		r.calls, r.hooks, len(r.violations), percent(caught, tried), tried)
	if len(r.violations) > 0 {
		return fmt.Errorf("%d violations", len(r.violations))
	}
	if tried == 0 || float64(caught) < floor*float64(tried) {
		return fmt.Errorf("%.1f %% of the corruptions were caught, want at least %.0f %%", percent(caught, tried), 100*floor)
	}
	return nil
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(1, whole)) }

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/demo"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/githubsim"
)

// storyOptions are the flags of a stand-in that plays the demo's story.
type storyOptions struct {
	play      bool
	readyWhen string
	patience  time.Duration
	checkName string
	operator  string
}

func (o *storyOptions) add(f *flag.FlagSet) {
	f.BoolVar(&o.play, "story", false, "play the demo's story once, and stay")
	f.StringVar(&o.readyWhen, "story-when", "", "URLs separated by commas, which all have to answer 200 before the story begins: readiness of the services")
	f.DurationVar(&o.patience, "story-patience", 10*time.Minute, "how long a step of the story may take")
	f.StringVar(&o.checkName, "story-check-name", "Countersign / approval", "name of the managed check")
	f.StringVar(&o.operator, "operator-listen", "", "with --story: address of /health/ready and /story, which tells how far it is; empty: not served")
}

// healthcheck is `githubsim healthcheck ADDRESS`, for an image without a shell.
func healthcheck(ctx context.Context, args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "githubsim healthcheck: give the address of --operator-listen")
		return daemon.ExitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	code, _, err := daemon.CheckHealth(ctx, args[0])
	if err != nil || code != http.StatusOK {
		fmt.Fprintln(os.Stderr, "githubsim healthcheck:", code, err)
		return daemon.ExitFailed
	}
	return daemon.ExitClean
}

// progress is what GET /story answers.
type progress struct {
	mu sync.Mutex
	// State is waiting, playing, complete or failed.
	State string        `json:"state"`
	Steps int           `json:"steps"`
	Done  []demo.Result `json:"done"`
	Error string        `json:"error,omitempty"`
}

func (p *progress) set(state string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.State = state
	if err != nil {
		p.Error = err.Error()
	}
}

func (p *progress) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	// The reader may be gone; nobody else is to be told.
	_ = json.NewEncoder(w).Encode(p)
}

// runStory serves the stand-in and plays the story on it. A story that failed leaves the stand-in up, to be looked at.
func runStory(ctx context.Context, sim *githubsim.Sim, app githubsim.App, o options, out io.Writer) error {
	stage := demo.NewStage(sim, app, o.story.checkName)
	stage.Patience = o.story.patience
	if err := writeKey(&o, stage.World.App.PEM); err != nil {
		return err
	}
	told := &progress{State: "waiting", Steps: len(demo.Story()), Done: []demo.Result{}}
	if o.story.operator != "" {
		stop, err := serveProgress(ctx, o.story.operator, told)
		if err != nil {
			return err
		}
		defer stop()
	}
	describe(out, sim, stage.World, o)
	if err := awaitReady(ctx, o.story.readyWhen); err != nil {
		return nil // told to stop before it began
	}
	told.set("playing", nil)
	_, _ = fmt.Fprintf(out, "\nthe story begins\n")
	err := stage.Play(ctx, func(r demo.Result) {
		told.mu.Lock()
		told.Done = append(told.Done, r)
		n := len(told.Done)
		told.mu.Unlock()
		_, _ = fmt.Fprintf(out, "%s  %2d  %7s  %-11s  %s\n%42s%s\n", time.Now().Format("15:04:05.000"), n, r.Took.Round(time.Millisecond), r.Status, r.Step, "", r.Title)
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		told.set("failed", err)
		_, _ = fmt.Fprintf(out, "the story stopped: %v\n", err)
	default:
		told.set("complete", nil)
		_, _ = fmt.Fprintf(out, "the story is complete: %d steps\n", told.Steps)
	}
	<-ctx.Done()
	return nil
}

// serveProgress opens the operator address until stop is called.
func serveProgress(ctx context.Context, address string, told *progress) (stop func(), err error) {
	ln, err := daemon.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /story", told)
	mux.HandleFunc("GET /health/ready", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ready\n") })
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := daemon.Serve(serving, ln, mux, slog.New(slog.DiscardHandler), time.Second); err != nil {
			fmt.Fprintln(os.Stderr, "githubsim:", err)
		}
	}()
	return func() { cancel(); <-done }, nil
}

// awaitReady returns when every URL has answered 200; its error is ctx's.
func awaitReady(ctx context.Context, urls string) error {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for url := range strings.SplitSeq(urls, ",") {
		for url != "" && !answers(ctx, url) {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
	}
	return nil
}

func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

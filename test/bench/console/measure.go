package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/store"
)

const (
	beginMarker = "<!-- console: written by go run ./test/bench/console -write -->"
	endMarker   = "<!-- /console -->"
)

// line is what one page took.
type line struct {
	name          string
	p50, p95, max time.Duration
	size          int
	goal          bool
}

type result struct {
	settings
	version string
	loaded  time.Duration
	lines   []line
}

func (w *world) measure(ctx context.Context) (result, error) {
	r := result{settings: w.settings, version: w.version, loaded: w.loaded}
	first, err := w.get("/")
	if err != nil {
		return r, err
	}
	next := strings.ReplaceAll(regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(first)[1], "&amp;", "&")
	pull := func(n int) string {
		repo := 1 + n%w.repositories
		return fmt.Sprintf("/pull/org-%d/repo-%d/%d", 1+repo%20, repo, n)
	}
	for _, p := range []struct{ name, path string }{
		{"pull requests, changed last", "/"}, {"the next page of them", next}, {"waiting longest", "/?order=oldest"}, {"of one verdict", "/?state=missing"}, {"that wait on one team", "/?owner=%40org-3%2Fteam-5"},
		{"of one repository", "/?repo=org-3%2Frepo-2"}, {"like this for a day", "/?age=1d"}, {"one pull request, 20 files", pull(7)}, {"one pull request, 3,000 files", pull(1)}, {"all its files", pull(1) + "?all=1"},
		{"owners", "/owners"}, {"operations", "/operations"},
	} {
		l, err := w.time(p.name, func() (int, error) {
			body, err := w.get(p.path)
			return len(body), err
		}, w.requests)
		if err != nil {
			return r, err
		}
		l.goal = true
		r.lines = append(r.lines, l)
	}
	only := make([]store.RepositoryID, 0, 100)
	for id := range 100 {
		only = append(only, store.RepositoryID(1+id*4))
	}
	l, err := w.time("pull requests, for a person who sees 100 repositories (query alone)", func() (int, error) {
		list, err := w.store.ListOpen(ctx, store.PullFilter{Only: only, Limit: 51})
		return len(list), err
	}, w.requests)
	if err != nil {
		return r, err
	}
	l.size = 0
	r.lines = append(r.lines, l)
	l, err = w.time("policy: another CODEOWNERS of one repository", func() (int, error) {
		form := url.Values{"repository": {"org-3/repo-2"}, "file": {"codeowners"}, "text": {"* @org-3/core\n"}}
		req := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/policy", strings.NewReader(form.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "same-origin")
		body, err := w.serve(req)
		return len(body), err
	}, 20)
	r.lines = append(r.lines, l)
	return r, err
}

func (w *world) get(path string) (string, error) {
	return w.serve(httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
}

func (w *world) serve(req *http.Request) (string, error) {
	req.RemoteAddr = "127.0.0.1:1"
	rec := httptest.NewRecorder()
	w.console.ServeHTTP(rec, req)
	if rec.Code != http.StatusOK {
		return "", fmt.Errorf("%s: %d\n%.1000s", req.URL, rec.Code, rec.Body)
	}
	return rec.Body.String(), nil
}

// time makes the request so often, some at once.
func (w *world) time(name string, request func() (int, error), often int) (line, error) {
	l := line{name: name}
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	var group sync.WaitGroup
	for range w.readers {
		group.Go(func() {
			for range often / w.readers {
				began := time.Now()
				size, err := request()
				took := time.Since(began)
				mu.Lock()
				all, l.size = append(all, took), size
				if err != nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	slices.Sort(all)
	l.p50, l.p95, l.max = all[len(all)/2], all[len(all)*95/100], all[len(all)-1]
	fmt.Fprintf(os.Stderr, "%-70s p50 %s p95 %s\n", name, ms(l.p50), ms(l.p95))
	return l, failed
}

func (r result) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d open pull requests (and as many closed) in %d repositories, %d decisions, loaded in %s; PostgreSQL %s with its own defaults; %s %s/%s, %d processors\n",
		r.pulls, r.repositories, r.decisions, r.loaded.Round(time.Second), r.version, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	fmt.Fprintf(&b, "for pages and database together; %d requests for each page, %d at once. The goal is a p95 below 100 ms.\n\n", r.requests, r.readers)
	b.WriteString("| page | p50 | p95 | longest | size | |\n|---|--:|--:|--:|--:|---|\n")
	for _, l := range r.lines {
		verdict, size := "", ""
		if l.goal {
			verdict = "met"
			if l.p95 >= 100*time.Millisecond {
				verdict = "missed"
			}
		}
		if l.size > 0 {
			size = fmt.Sprintf("%d KB", (l.size+1023)>>10)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", l.name, ms(l.p50), ms(l.p95), ms(l.max), size, verdict)
	}
	return b.String()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

// insert replaces what stands between the markers of a page.
func insert(path, table string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), beginMarker)
	_, after, closed := strings.Cut(rest, endMarker)
	if !found || !closed {
		return fmt.Errorf("%s: want the lines %q and %q", path, beginMarker, endMarker)
	}
	return os.WriteFile(path, []byte(before+beginMarker+"\n"+table+endMarker+after), 0o644)
}

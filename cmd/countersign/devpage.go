package main

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"time"

	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

//go:embed devpage.html
var devPageText string

var devPageTemplate = template.Must(template.New("page").Parse(devPageText))

// devPage lists the open pull requests, their checks and why. It reads Postgres and nothing else; everything it shows is escaped.
type devPage struct {
	reader  *store.Store
	standIn string
}

// devPull is one pull request as the page shows it.
type devPull struct {
	store.PullView
	Short   string
	State   string
	Verdict policy.PullVerdict
	Since   string
}

func (p *devPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	views, err := p.reader.ListPulls(r.Context(), 200)
	page := struct {
		Pulls   []devPull
		StandIn string
		Error   string
		Now     string
	}{StandIn: p.standIn, Now: time.Now().Format("15:04:05")}
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		page.Error = "The database does not answer; the page tries again by itself."
	}
	for _, v := range views {
		page.Pulls = append(page.Pulls, pagePullOf(v))
	}
	_ = devPageTemplate.Execute(w, page) // the reader has gone: nobody is left to tell
}

func pagePullOf(v store.PullView) devPull {
	p := devPull{PullView: v, Short: string(v.Head), State: v.Conclusion}
	if len(p.Short) > 10 {
		p.Short = p.Short[:10]
	}
	switch {
	case v.Revoking:
		p.State = "revoking"
	case v.DecisionID == 0 && v.Waiting:
		p.State = "evaluating"
	case v.DecisionID == 0:
		p.State = "no check"
	}
	if !v.DecidedAt.IsZero() {
		p.Since = v.DecidedAt.Local().Format("15:04:05")
	}
	var verdict policy.Verdict
	if json.Unmarshal([]byte(v.Verdict), &verdict) == nil {
		for _, pull := range verdict.Pulls {
			if pull.Number == v.Key.Number {
				p.Verdict = pull
			}
		}
	}
	return p
}

package githubsim

import (
	"html/template"
	"net/http"
	"strings"
)

var pageTemplate = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>GitHub stand-in</title>
<style>body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #ddd;vertical-align:top}
code{font-size:90%}.success{color:#1a7f37}.failure{color:#cf222e}.in_progress,.queued{color:#9a6700}</style></head><body>
<h1>GitHub stand-in</h1>
<p>A world in memory that answers like GitHub. API at <code>{{.URL}}</code>, GraphQL at <code>{{.URL}}/graphql</code>.</p>
{{range .Repos}}<h2 id="{{.Name}}">{{.Name}}</h2>
{{if .Pulls}}<table><tr><th>#</th><th>Title</th><th>State</th><th>Reviews</th><th>Checks on the head</th></tr>
{{range .Pulls}}<tr><td>{{.Number}}</td><td>{{.Title}}<br><small>{{.Author}}, {{.Base}} ← <code>{{.Head}}</code></small></td><td>{{.State}}</td>
<td>{{range .Reviews}}{{.}}<br>{{else}}none{{end}}</td>
<td>{{range .Checks}}<span class="{{.Result}}">{{.Name}}: {{.Result}}</span><br><small>{{.Title}}</small><br>{{else}}none{{end}}</td></tr>
{{end}}</table>{{else}}<p>No pull requests.</p>{{end}}
{{else}}<p>This world has no repositories yet.</p>{{end}}</body></html>
`))

type pageRepo struct {
	Name  string
	Pulls []pagePull
}

type pagePull struct {
	Number                           int
	Title, Author, Base, Head, State string
	Reviews                          []string
	Checks                           []pageCheck
}

type pageCheck struct{ Name, Result, Title string }

// page serves the stand-in's own page at / and at the html_url of a pull request.
func (s *Sim) page(w http.ResponseWriter, r *http.Request, path string) bool {
	if s.browserPage(w, r, path) {
		return true
	}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	ofPull := len(parts) == 4 && parts[2] == "pull" && parts[0] != "repos"
	if r.Method != http.MethodGet || path != "/" && !ofPull {
		return false
	}
	data := struct {
		URL   string
		Repos []pageRepo
	}{URL: s.url, Repos: s.pageRepos()}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_ = pageTemplate.Execute(w, data) // the client is gone
	return true
}

func (s *Sim) pageRepos() []pageRepo {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []pageRepo
	for _, id := range sortedKeys(s.world.repos) {
		r := s.world.repos[id]
		one := pageRepo{Name: s.world.fullName(r)}
		for _, n := range sortedKeys(r.pulls) {
			one.Pulls = append(one.Pulls, s.pagePull(r, r.pulls[n]))
		}
		list = append(list, one)
	}
	return list
}

func (s *Sim) pagePull(r *repo, p *pull) pagePull {
	one := pagePull{Number: p.number, Title: p.title, Author: s.login(p.authorID), Base: p.baseRef, Head: p.headSHA[:12], State: strings.ToLower(pullState(p))}
	if p.draft {
		one.State += ", draft"
	}
	for _, v := range p.reviews {
		text := s.login(v.userID) + " " + strings.ToLower(strings.ReplaceAll(v.state, "_", " "))
		if v.commitID != p.headSHA {
			text += " (an older head)"
		}
		one.Reviews = append(one.Reviews, text)
	}
	var all []*checkRun
	for _, id := range r.runsOf[p.headSHA] {
		all = append(all, r.runs[id])
	}
	for _, c := range latestRuns(all, s.switches.LatestBy) {
		result := c.conclusion
		if c.status != "completed" {
			result = c.status
		}
		one.Checks = append(one.Checks, pageCheck{Name: c.name, Result: result, Title: c.title})
	}
	return one
}

func (s *Sim) login(id int64) string {
	if a := s.world.accounts[id]; a != nil {
		return a.login
	}
	return "ghost"
}

package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/countersign/countersign/pkg/daemon"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static/style.css static/live.js
var staticFiles embed.FS

// templates has one set a page: the layout, the parts, and the page's own "main".
var templates = func() map[string]*template.Template {
	base := template.Must(template.New("layout").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	all := map[string]*template.Template{}
	for _, page := range []string{"pulls", "pull", "decision", "diff", "owners", "operations", "policy", "problem"} {
		all[page] = template.Must(template.Must(base.Clone()).ParseFS(templateFiles, "templates/"+page+".html"))
	}
	return all
}()

var functions = template.FuncMap{
	"v": shown, "short": short, "utc": utc, "ago": ago, "asset": asset, "plural": plural, "word": word, "clip": clip,
	"pullPath": pullPath, "githubPull": githubPull,
}

// The bounds of one shown text, in characters.
const (
	maxShown = 400
	maxLong  = 4000
)

// shown makes an outside text inert to the eye as escaping makes it inert to the browser: control, format and direction characters are
// written out, and what is too long is cut, which is said.
func shown(text any) string { return visible(fmt.Sprint(text), maxShown) }

// clip is shown with the longer bound, for sentences of our own that carry outside names.
func clip(text any) string { return visible(fmt.Sprint(text), maxLong) }

func visible(s string, limit int) string {
	var b strings.Builder
	n := 0
	for i, r := range s {
		if n == limit {
			return b.String() + fmt.Sprintf("… (%d characters more)", utf8.RuneCountInString(s[i:]))
		}
		n++
		switch {
		case r == utf8.RuneError || r != ' ' && !unicode.IsPrint(r):
			fmt.Fprintf(&b, "⟨%04X⟩", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// short is a commit as people write it.
func short(sha any) string {
	s := fmt.Sprint(sha)
	return shown(s[:min(len(s), 10)])
}

func utc(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// ago is the age of a time in one unit.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	future := d < 0
	if future {
		d = -d
	}
	text := "a moment"
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{365 * 24 * time.Hour, "year"}, {24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := int(d / u.unit); n > 0 {
			text = plural(n, u.name)
			break
		}
	}
	if future {
		return "in " + text
	}
	return text + " ago"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// words are what people call the states and places; a key that is not here is shown as it is.
var words = map[string]string{
	"approved": "approved", "released": "released by break-glass", "missing": "waits for approval", "blocked": "blocked", "revoking": "being revoked",
	"evaluating": "being evaluated", "unmanaged": "not gated",
	"team_not_found": "does not exist", "team_secret": "is secret", "team_read_only": "can only read", "team_empty": "has no members",
	"rate_limited": "paused by GitHub's rate limit", "held": "paused by an operator", "gone": "gone from GitHub",
}

func word(key any) string {
	k := fmt.Sprint(key)
	if w := words[k]; w != "" {
		return w
	}
	return shown(strings.ReplaceAll(k, "_", " "))
}

// pullPath is the page of a pull request. Names come from GitHub by way of the database; html/template escapes the rest.
func pullPath(fullName string, number int) string {
	return fmt.Sprintf("/pull/%s/%d", fullName, number)
}

func githubPull(web, fullName string, number int) string {
	return fmt.Sprintf("%s/%s/pull/%d", web, fullName, number)
}

// assets are the static files by name, with the digest that makes their addresses change with them.
var assets = func() map[string]struct {
	body   []byte
	digest string
} {
	all := map[string]struct {
		body   []byte
		digest string
	}{}
	for _, name := range []string{"style.css", "live.js"} {
		body, err := staticFiles.ReadFile("static/" + name)
		if err != nil {
			panic(err) //nolint:forbidigo // embedded above
		}
		sum := sha256.Sum256(body)
		all[name] = struct {
			body   []byte
			digest string
		}{body, hex.EncodeToString(sum[:8])}
	}
	return all
}()

func asset(name string) string { return "/static/" + name + "?" + assets[name].digest }

func (c *Console) staticFile(w http.ResponseWriter, r *http.Request) {
	file, ok := assets[r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	kind := "text/css; charset=utf-8"
	if strings.HasSuffix(r.PathValue("file"), ".js") {
		kind = "text/javascript; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	if r.URL.RawQuery == file.digest {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(file.body) // the reader has gone
}

// shell is what every page has around its own part.
type shell struct {
	Title  string
	Page   string // which entry of the navigation
	Viewer viewer
	Open   bool   // there is no sign-in, so nothing to sign out of
	Live   string // where changes are told, "" for a page that stays
	Mark   string // what was shown, for Live to compare with
	Now    time.Time
	Web    string
	// StandIn is the address of the stand-in whose world this is.
	StandIn string
	Data    any
}

func (c *Console) show(w http.ResponseWriter, r *http.Request, status int, name string, s shell) {
	s.Open, s.Web, s.StandIn = c.cfg.Open, c.web, c.StandIn
	if s.Now.IsZero() {
		s.Now = c.Now()
	}
	var b strings.Builder
	if err := templates[name].ExecuteTemplate(&b, "layout", s); err != nil {
		c.Log.ErrorContext(r.Context(), "a page could not be written", "page", name, daemon.KeyErr, err)
		http.Error(w, "The page could not be written.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(b.String())) // the reader has gone
}

func (c *Console) problem(w http.ResponseWriter, r *http.Request, v viewer, status int, says string) {
	c.show(w, r, status, "problem", shell{Title: http.StatusText(status), Viewer: v, Data: says})
}

// failed answers a read that did not succeed: what is not there, or what may not be seen, is one answer.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, v viewer, err error) {
	if notThere(err) {
		c.problem(w, r, v, http.StatusNotFound, "There is no such page, or you cannot see its repository on GitHub.")
		return
	}
	if r.Context().Err() != nil {
		return // the reader has gone
	}
	c.Log.WarnContext(r.Context(), "a page could not be read", daemon.KeyErr, err)
	c.problem(w, r, v, http.StatusServiceUnavailable, "The database does not answer in time. Try again in a moment.")
}

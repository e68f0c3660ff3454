package console

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/net/html"

	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store/storetest"
)

func withOwners(b policy.Base, text string) policy.Base {
	b.Codeowners.Text = text
	return b
}

// hostile is a text that tries everything: markup of every context, direction and control characters, template syntax, a forged line.
const hostile = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{.}}${7}<!--</style></title></textarea>\u202egnp.exe\u2066\u200b\u200d\ufeff\x01\x1b[31m\r\nEvil: 1\njavascript:alert(3)"

// long is longer than any name that GitHub allows.
func long(prefix string) string { return prefix + strings.Repeat("Ü<b>", 15_000) }

// inert checks that a page holds no element, attribute or character that a text of the outside could have brought.
func inert(t *testing.T, path, page string) {
	t.Helper()
	allowed := map[string]bool{}
	for name := range strings.FieldsSeq("html head meta title link script body a header p nav div span form button main time h1 h2 h3 section ul ol li label input select option details summary table thead tbody tr th td dl dt dd bdi code strong br textarea") {
		allowed[name] = true
	}
	scripts := 0
	tokens := html.NewTokenizer(strings.NewReader(page))
	for {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			if tokens.Err() != io.EOF {
				t.Errorf("%s: %v", path, tokens.Err())
			}
			break
		}
		token := tokens.Token()
		if kind == html.CommentToken {
			t.Errorf("%s: a comment %q", path, token.Data)
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		if !allowed[token.Data] {
			t.Errorf("%s: an element %s", path, token.Data)
		}
		for _, a := range token.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc":
				t.Errorf("%s: an attribute %s=%q", path, a.Key, a.Val)
			case a.Key == "href" && !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#") && !strings.HasPrefix(a.Val, "?") && !strings.HasPrefix(a.Val, "http://127.0.0.1"):
				t.Errorf("%s: leads to %q", path, a.Val)
			case a.Key == "href" && strings.HasPrefix(a.Val, "//"):
				t.Errorf("%s: leads away to %q", path, a.Val)
			}
		}
		if token.Data == "script" {
			scripts++
		}
	}
	if scripts > 1 {
		t.Errorf("%s: %d scripts", path, scripts)
	}
	for i, r := range page {
		if r != '\n' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)) {
			t.Errorf("%s: character %U at %q", path, r, page[max(0, i-60):min(len(page), i+20)])
			break
		}
	}
}

// spoil writes hostile text wherever a reader looks.
func spoil(db *storetest.DB, s subject) {
	const text = "$1::text"
	for _, sql := range []string{
		"UPDATE installation SET account_login = " + text + ", pause_reason = " + text + ", paused_until = now() + interval '1 hour', held_at = now(), held_by = " + text + ", held_reason = " + text,
		"UPDATE pull SET title = " + text + ", author_login = " + text + ", base_ref = " + text,
		"UPDATE standing SET next_step = left(" + text + ", 500)",
		"UPDATE decision SET title = " + text + ", reason = " + text + ", delivery_id = " + text + ", evidence_digest = " + text,
		"UPDATE head SET invalidation_error = " + text + ", invalidation_holder = " + text + ", invalidation_expires_at = now() + interval '1 minute', evaluation_holder = " + text + ", evaluation_expires_at = now() + interval '1 minute'",
		"INSERT INTO lease (name, holder, last_result) VALUES ('lease ' || " + text + ", " + text + ", " + text + ") ON CONFLICT DO NOTHING",
		"INSERT INTO delivery_gap (guid, event, action, kind, attempt_id, attempted_at, status, last_error) VALUES (left(" + text + ", 100), " + text + ", " + text + ", 'failed', 1, now(), " + text + ", " + text + ") ON CONFLICT DO NOTHING",
		"UPDATE waiting SET owner = left(" + text + ", 300), problem = " + text + " WHERE owner = '@alice'",
	} {
		db.Exec(sql, hostile)
	}
	db.Exec(`INSERT INTO evaluation (installation_id, repository_id, number, generation, head_sha, head_generation, authority_epoch, reason, last_error, attempts, delivery_id)
		SELECT $1, $2, $3, p.generation, h.head_sha, h.generation, 1, $4, $4, 3, left($4, 100) FROM pull p JOIN head h USING (installation_id, repository_id, head_sha) WHERE p.number = $3`,
		s.installation, s.repository, s.number, hostile)
	db.Exec(`INSERT INTO authority (installation_id, scope, repository_id, base_ref, epoch, reason, last_error, holder, expires_at) VALUES ($1, 'base', $2, $3, 1, $3, $3, $3, now() + interval '1 minute')`,
		s.installation, s.repository, hostile)
}

// hostileSubject has hostile and long text in every field of its evidence, and 3,000 files.
func hostileSubject(installation, repository int64) subject {
	s := newSubject(installation, repository, "acme/widgets", 1)
	s.title, s.author, s.ref, s.reason = hostile, hostile, hostile, hostile
	p := &s.snapshot.Pulls[0]
	p.Files.Items = nil
	for i := range 2999 {
		p.Files.Items = append(p.Files.Items, policy.ChangedFile{Path: fmt.Sprintf("src/%d-<script>alert(1)</script>\u202e&'\".go", i), Status: "modified"})
	}
	p.Files.Items = append(p.Files.Items, policy.ChangedFile{Path: long("web/"), Status: "modified"})
	p.ChangedFiles = 3000
	p.Labels, p.BaseRef = []string{hostile}, hostile
	p.Author.Login = "dave"
	p.Reviews.Items = []policy.Review{
		{ID: 9, State: "APPROVED", Author: &policy.Actor{ID: 6, Login: long("x"), Type: "User"}, CommitID: head, SubmittedAt: s.snapshot.Now},
		{ID: 10, State: "COMMENTED", Author: &policy.Actor{ID: 7, Login: hostile, Type: "User"}, CommitID: head, SubmittedAt: s.snapshot.Now},
	}
	s.snapshot.Users[strings.ToLower(hostile)] = policy.UserFact{State: policy.FactPresent, ID: 7, Permission: hostile}
	s.snapshot.Teams["acme/"+strings.ToLower(hostile)] = policy.TeamFact{State: policy.FactPresent, Privacy: hostile, Permission: hostile}
	s.snapshot.Apps = map[string]policy.AppFact{strings.ToLower(hostile): {State: policy.FactPresent, ID: 1, Type: hostile}}
	s.snapshot.Unreadable = []policy.Unreadable{{Code: policy.CodeMissingPermission, Subject: hostile, Detail: long("y")}}
	return s
}

func TestHostileDataIsInert(t *testing.T) {
	t.Parallel()
	w := newWorld(t, open)
	s := hostileSubject(w.ex.Installation, w.repositoryID("widgets"))
	first := put(w.db, s)
	s.snapshot.Unreadable = nil
	second := put(w.db, s)
	spoil(w.db, s)
	b := w.browser("")
	paths := append(everyPage("widgets", 1, second), fmt.Sprintf("%s/diff?from=%d&to=%d&all=1", pathOf("widgets", 1), first, second), fmt.Sprintf("%s/decision/%d?all=1", pathOf("widgets", 1), first),
		"/?repo="+url.QueryEscape(hostile), "/?owner="+url.QueryEscape(hostile), "/?after="+url.QueryEscape(hostile), "/owners?after="+url.QueryEscape(hostile)+"&oldest=2026-01-01T00:00:00Z",
		"/policy?repository="+url.QueryEscape(hostile), "/nothing/"+url.PathEscape("<script>"), "/pull/acme/"+url.PathEscape("<script>")+"/1", "/pull/acme/widgets/9999999999999999999")
	for _, path := range paths {
		resp, body := w.get(b, path)
		if resp.StatusCode >= 500 {
			t.Errorf("%s: %d\n%.500s", path, resp.StatusCode, body)
		}
		inert(t, path, body)
	}
	if _, body := w.get(b, pathOf("widgets", 1)); !strings.Contains(body, "⟨202E⟩") || !strings.Contains(body, "characters more") || len(body) > 400_000 {
		t.Errorf("what was hidden is not shown, or 60 KB are (%d bytes)\n%.9000s", len(body), body)
	}
	if _, body := w.get(b, pathOf("widgets", 1)+"?all=1"); strings.Count(body, "src/") < 2999 {
		t.Errorf("all=1 shows %d files", strings.Count(body, "src/"))
	}
	for file, text := range map[string]string{"codeowners": hostile, "policy": hostile, "organization": hostile, hostile: hostile} {
		resp, err := post(b, w.srv.URL+"/policy", w.srv.URL, url.Values{"repository": {"acme/widgets"}, "file": {file}, "text": {text}})
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		inert(t, "policy "+file, strings.ReplaceAll(cutTextarea(string(body)), "\r", ""))
	}
}

// cutTextarea leaves out what somebody typed themselves: it has to come back to them as it was.
func cutTextarea(body string) string {
	return regexp.MustCompile(`(?s)<textarea.*?</textarea>`).ReplaceAllString(body, "")
}

func TestEveryAnswerCarriesThePolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, open)
	id := w.put("widgets", 1, nil)
	for _, path := range append(everyPage("widgets", 1, id), "/nothing", "/static/style.css", "/static/live.js", "/static/none", "/auth/login", "/setup") {
		resp, _ := w.get(w.browser(""), path)
		for name, want := range map[string]string{
			"Content-Security-Policy": csp, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
	if strings.Contains(csp, "unsafe") || strings.Contains(csp, "*") || !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("the policy lets in: %s", csp)
	}
	if resp, _ := w.get(w.browser(""), asset("style.css")); !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") {
		t.Error("a file by its digest is not kept")
	}
	if resp, _ := w.get(w.browser(""), "/setup"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("RG-476: /setup without being switched on: %d", resp.StatusCode)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, open)
	first := w.put("widgets", 1, nil)
	second := w.put("widgets", 1, func(s *subject) { s.approve() })
	b := w.browser("")
	says := func(path string, want ...string) {
		t.Helper()
		resp, body := w.get(b, path)
		for _, text := range want {
			if resp.StatusCode != http.StatusOK || !strings.Contains(body, text) {
				t.Errorf("%s (%d) does not say %q\n%s", path, resp.StatusCode, text, body)
			}
		}
	}
	p := pathOf("widgets", 1)
	says("/", "acme/widgets", "#1", "A change", "waits for approval", "@acme/core", "by <bdi>dave")
	says("/?owner=%40acme%2Fcore&state=missing&order=oldest&repo=acme/", "A change")
	says("/?state=approved", "No open pull request is like that.")
	says("/?age=1d", "No open pull request is like that.")
	says(p, "Owned by <bdi>@acme/core", "Owned by <bdi>@alice", "✓ <bdi>alice", "What is missing", "Next step", "a.go", "line 1", "The evidence it rests on", "idle", fmt.Sprintf("/diff?from=%d&amp;to=%d", first, second))
	says(fmt.Sprintf("%s/decision/%d", p, first), "nobody yet", "pull_request.opened", "digest")
	says(fmt.Sprintf("%s/diff?from=%d&to=%d", p, second, first), "alice for owners @alice", "counts as @alice", "not there")
	says("/owners", "@acme/core", "1 pull request", "is secret")
	says("/operations", "revocation", "acme", "No delivery was missed")
	says("/policy?repository=acme/widgets", `value="acme/widgets"`)
	resp, err := post(b, w.srv.URL+"/policy", w.srv.URL, url.Values{"repository": {"acme/widgets"}, "file": {"codeowners"}, "text": {"/web/ @alice\n"}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), "1 would pass that did not") || !strings.Contains(string(body), "approved") {
		t.Errorf("policy: %d\n%s", resp.StatusCode, body)
	}
}

func TestListsGoOnWhereTheyEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, open)
	repo := w.repositoryID("widgets")
	for n := 1; n <= pageLines+5; n++ {
		w.db.Exec(`INSERT INTO pull (installation_id, repository_id, number, head_sha, title, updated_at) VALUES ($1, $2, $3::integer, $4, 't' || $3::integer, now() - make_interval(secs => $3::integer))`, w.ex.Installation, repo, n, head)
	}
	b := w.browser("")
	seen, path := map[string]bool{}, "/"
	for range 3 {
		_, body := w.get(b, path)
		for _, m := range regexp.MustCompile(`<bdi>(t\d+)</bdi>`).FindAllStringSubmatch(body, -1) {
			if seen[m[1]] {
				t.Errorf("%s is listed twice", m[1])
			}
			seen[m[1]] = true
		}
		next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(body)
		if next == nil {
			break
		}
		path = strings.ReplaceAll(next[1], "&amp;", "&")
	}
	if len(seen) != pageLines+5 {
		t.Errorf("%d of %d were listed", len(seen), pageLines+5)
	}
}

func TestLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { open(c); c.MaxLive = 1 })
	w.put("widgets", 1, nil)
	b := w.browser("")
	_, body := w.get(b, pathOf("widgets", 1))
	mark := regexp.MustCompile(`data-mark="([^"]+)"`).FindStringSubmatch(body)[1]
	events, stop := w.follow(t, b, "/live"+pathOf("widgets", 1)+"?mark="+mark)
	defer stop()
	select {
	case e := <-events:
		t.Errorf("told %q though nothing changed", e)
	case <-time.After(200 * time.Millisecond):
	}
	if resp, _ := w.get(b, "/live/pulls"); resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d", resp.StatusCode)
	}
	w.put("widgets", 1, func(s *subject) { s.approve() })
	_, body = w.get(b, pathOf("widgets", 1))
	now := regexp.MustCompile(`data-mark="([^"]+)"`).FindStringSubmatch(body)[1]
	if now == mark {
		t.Error("the mark stays though the page says something else")
	}
	for e := range events { // put has steps, and each may be told
		if e == "change "+now {
			break
		}
	}
	w.c.Close()
	if _, more := <-events; more {
		t.Error("an open page holds the drain")
	}
}

func TestShown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain":                         "plain",
		"a\u202eb\n\tc":                 "a⟨202E⟩b⟨000A⟩⟨0009⟩c",
		"\xff":                          "⟨FFFD⟩",
		"naïve 日本":                      "naïve 日本",
		strings.Repeat("x", maxShown+3): strings.Repeat("x", maxShown) + "… (3 characters more)",
	} {
		if got := shown(text); got != want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for d, want := range map[time.Duration]string{0: "a moment ago", time.Second: "1 second ago", 90 * time.Minute: "1 hour ago", 49 * time.Hour: "2 days ago", -2 * time.Minute: "in 2 minutes"} {
		if got := ago(now.Add(-d), now); got != want {
			t.Errorf("%s: %q", d, got)
		}
	}
}

//go:build browser

package browser

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/countersign/countersign/internal/demo"
	"github.com/countersign/countersign/internal/system"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge/localnats"
	"github.com/countersign/countersign/pkg/store/storetest"
	"github.com/countersign/countersign/services/console"
)

const patience = time.Minute

// world is the whole system, a stand-in of GitHub, the console, and a Chromium.
type world struct {
	t     *testing.T
	stage *demo.Stage
	url   string
	tab   context.Context

	mu       sync.Mutex
	problems []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	db := storetest.New(t)
	nats, err := localnats.Start(t.Context(), localnats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nats.Close)
	sim := githubsim.New(githubsim.Options{})
	t.Cleanup(sim.Close)
	const secret = "0123456789abcdef0123456789abcdef"
	w.stage = demo.NewStage(sim, githubsim.App{WebhookSecret: secret}, "Countersign / approval")
	handler, err := console.New(console.Config{
		GitHub: ghclient.WebConfig{APIURL: sim.URL()}, Listen: "127.0.0.1:0", Open: true, AccessAge: time.Minute, Session: time.Hour, MaxLive: 20,
	}, console.Deps{Store: db.Store(storetest.Console), LivePause: 50 * time.Millisecond, StandIn: sim.URL()})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	w.url = server.URL
	t.Cleanup(func() { handler.Close(); server.Close() })
	sys, err := system.Start(t.Context(), system.Options{
		RoleURL: func(role string) string { return db.URL(storetest.Role(role)) }, Log: io.Discard,
		Environ: map[string]string{
			"COUNTERSIGN_NATS_URL": nats.URL(), "COUNTERSIGN_GITHUB_API_URL": sim.URL(), "COUNTERSIGN_GITHUB_APP_ID": fmt.Sprint(w.stage.World.App.ID),
			"COUNTERSIGN_GITHUB_PRIVATE_KEY": string(w.stage.World.App.PEM), "COUNTERSIGN_WEBHOOK_SECRET": secret, "COUNTERSIGN_CONSOLE_URL": server.URL,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := sys.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	ready, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := sys.Ready(ready); err != nil {
		t.Fatal(err)
	}
	sim.SetWebhook(w.stage.World.App.ID, sys.IngressURLs()[0]+"/webhooks/github", secret)
	w.browse()
	return w
}

// browse starts a Chromium and listens to what it complains about.
func (w *world) browse() {
	w.t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses a sandbox to root
	}
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	tab, stopTab := chromedp.NewContext(allocator)
	w.t.Cleanup(func() { stopTab(); stopAllocator() })
	w.tab = tab
	err := chromedp.Listen(tab, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			w.complain("exception: %s", e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			if e.Type == "error" || e.Type == "warning" {
				w.complain("console.%s", e.Type)
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
				w.complain("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
			}
		case *network.EventResponseReceived:
			if e.Response.Status >= 400 {
				w.complain("%d for %s", e.Response.Status, e.Response.URL)
			}
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.do(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, network.Enable, network.EnableParams{})
		if err == nil {
			_, err = cdp.Call(ctx, t, log.Enable, cdp.Empty{})
		}
		if err == nil {
			_, err = cdp.Call(ctx, t, runtime.Enable, cdp.Empty{})
		}
		return v, err
	}, chromedp.EmulateViewport(1280, 800))
}

func (w *world) complain(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if strings.Contains(text, "favicon.ico") {
		return // Chromium asks for one, and there is none
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, text)
}

// do runs actions within the patience.
func (w *world) do(actions ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.tab, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		w.t.Fatalf("%v\n%s", err, w.shown())
	}
}

// shown is where the browser is and what it shows, for a failure.
func (w *world) shown() string {
	where, _ := chromedp.Run(w.tab, chromedp.Location())
	body, _ := chromedp.Run(w.tab, chromedp.Evaluate[string]("document.body.innerText"))
	return fmt.Sprintf("at %s\n%.3000s", where, body)
}

// ask evaluates an expression of the page.
func ask[T any](w *world, expression string) T {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.tab, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		w.t.Fatalf("%v\n%s", err, w.shown())
	}
	return value
}

// open goes to a page and waits for it.
func (w *world) open(path string) {
	w.t.Helper()
	w.do(chromedp.Navigate(w.url + path))
	w.until("the page "+path, "document.readyState === 'complete' && document.querySelector('h1')")
}

// follow presses a link by keyboard, as somebody without a mouse does, and waits for the page it leads to.
func (w *world) follow(selector, heading string) {
	w.t.Helper()
	w.do(focus(selector), chromedp.KeyEvent(kb.Enter))
	w.until("the page "+heading, fmt.Sprintf("document.readyState === 'complete' && (document.querySelector('h1')?.textContent ?? '').includes(%q)", heading))
}

// focus puts the keyboard's focus on an element.
func focus(selector string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		found, err := chromedp.Evaluate[bool](fmt.Sprintf("(() => { const e = document.querySelector(%q); e?.focus(); return !!e && document.activeElement === e })()", selector))(ctx, t)
		if err == nil && !found {
			err = fmt.Errorf("nothing to focus at %s", selector)
		}
		return v, err
	}
}

// until asks the page again and again; a page that is just leaving counts as not yet.
func (w *world) until(what, expression string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.tab, patience)
	defer cancel()
	for {
		held, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if held && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			w.t.Fatalf("%s: %v\n%s", what, err, w.shown())
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// pull opens a pull request of two owner sets and waits until it is blocked.
func (w *world) pull(title string) int {
	w.t.Helper()
	s := w.stage
	n, err := s.Sim.OpenPull(s.World.Repository, githubsim.Pull{Author: "dave", Title: title, Files: map[string]string{
		"src/main.go": "package main // " + title + "\n", "docs/index.md": "# " + title + "\n",
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.check(n, "failure")
	return n
}

func (w *world) check(n int, conclusion string) {
	w.t.Helper()
	s := w.stage
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		check, ok := s.Sim.LatestCheck(s.World.Repository, s.Sim.Head(s.World.Repository, n), s.CheckName)
		if ok && check.Conclusion == conclusion {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the check of %d is %q %q, want %s", n, check.Conclusion, check.Title, conclusion)
		}
	}
}

func (w *world) review(n int, login string) {
	w.t.Helper()
	if _, err := w.stage.Sim.Review(w.stage.World.Repository, n, login, "APPROVED"); err != nil {
		w.t.Fatal(err)
	}
}

func TestConsoleInABrowser(t *testing.T) {
	w := newWorld(t)
	w.pull("Describe the widgets anew")
	other := w.pull("Another change")
	w.review(other, "alice")
	w.stage.Sim.AddTeam(githubsim.Team{Org: "acme", Slug: "quiet", Privacy: "secret", Repos: map[string]string{"widgets": "pull"}, Members: []string{"frank"}})
	n := w.pull("Say hello in src and docs")

	t.Run("a blocked pull request is reached from the list by keyboard", func(t *testing.T) {
		w.t = t
		w.open("/")
		w.follow(fmt.Sprintf(`a[href="/pull/acme/widgets/%d"]`, n), "Say hello")
		w.until("two unmet groups", "document.querySelectorAll('.group.unmet').length === 2")
		w.until("live", "document.getElementById('live').dataset.state === 'on'")
	})
	t.Run("its reasons change while it is looked at, without a reload, and what is open and focused stays", func(t *testing.T) {
		w.t = t
		ask[bool](w, "window.unbroken = document.querySelector('#facts').open = true")
		w.do(focus("#facts summary"))
		w.shoot("pull")
		w.review(n, "alice")
		w.until("one group met", "window.unbroken && document.querySelectorAll('.group.met').length === 1 && document.querySelectorAll('.group.unmet').length === 1")
		w.until("alice named", "[...document.querySelectorAll('.group.met')].some((g) => g.textContent.includes('alice'))")
		w.until("the details stay open", "document.querySelector('#facts').open")
		w.review(n, "carol")
		w.until("approved", "window.unbroken && document.querySelector('.verdict .state').textContent === 'approved' && document.querySelectorAll('.group.unmet').length === 0")
	})
	t.Run("every page is reached, readable and without a complaint", func(t *testing.T) {
		w.t = t
		for _, p := range []struct{ selector, heading, name string }{
			{`a[href="/"]`, "Pull requests", "list"}, {`nav a[href="/owners"]`, "Owners", "owners"}, {`nav a[href="/operations"]`, "Operations", "operations"}, {`nav a[href="/policy"]`, "Policy", "policy"},
		} {
			w.follow(p.selector, p.heading)
			w.until(p.name+" settled", "document.fonts.status === 'loaded'")
			w.accessible(p.name)
			w.shoot(p.name)
		}
		w.open(fmt.Sprintf("/pull/acme/widgets/%d", n))
		w.accessible("pull")
		w.follow(".history a[href*='/diff']", "What changed")
		w.accessible("diff")
		w.follow("p a[href*='/decision/']", "Decision")
		w.accessible("decision")
	})
	t.Run("a filter and a what-if are used by keyboard", func(t *testing.T) {
		w.t = t
		w.open("/")
		w.do(focus("#owner"), chromedp.KeyEvent("@acme/docs"), chromedp.KeyEvent(kb.Enter))
		w.until("the filter", "location.search.includes('owner=%40acme%2Fdocs') && document.querySelectorAll('.pulls li').length === 2")
		w.open("/policy")
		w.do(focus("#repository"), chromedp.KeyEvent("acme/widgets"), focus("#text"), chromedp.KeyEvent("/src/ @acme/core"),
			focus(".stack button"), chromedp.KeyEvent(kb.Enter))
		w.until("what it would decide", "document.querySelector('#result')?.textContent.includes('looked at')")
		w.accessible("policy result")
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.problems {
		t.Errorf("the browser complains: %s", p)
	}
}

// looks are how a page is shown.
var looks = []struct {
	name, scheme  string
	width, height int64
	mobile        bool
}{
	{"desktop-light", "light", 1280, 800, false}, {"desktop-dark", "dark", 1280, 800, false}, {"phone-light", "light", 390, 844, true}, {"phone-dark", "dark", 390, 844, true},
}

// each puts the page into every look.
func (w *world) each(use func(look string)) {
	w.t.Helper()
	for _, l := range looks {
		w.look(l.scheme, l.width, l.height, l.mobile)
		w.until("the look "+l.name, fmt.Sprintf("matchMedia('(prefers-color-scheme: %s)').matches && innerWidth === %d", l.scheme, l.width))
		use(l.name)
	}
	w.look("light", 1280, 800, false)
}

func (w *world) look(scheme string, width, height int64, mobile bool) {
	w.t.Helper()
	w.do(func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: mobile})
		if err == nil {
			_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
			}})
		}
		return v, err
	})
}

// accessible holds the page to what its readers need, in every look.
func (w *world) accessible(name string) {
	w.t.Helper()
	w.each(func(look string) {
		for _, p := range ask[[]string](w, checks) {
			w.t.Errorf("%s, %s: %s", name, look, p)
		}
	})
	w.focusVisible(name)
}

// focusVisible goes through the page by Tab: whatever has the focus shows it.
func (w *world) focusVisible(name string) {
	w.t.Helper()
	ask[bool](w, "document.activeElement.blur(), window.scrollTo(0, 0), true")
	seen := map[string]bool{}
	for range 25 {
		w.do(chromedp.KeyEvent(kb.Tab))
		at := ask[struct {
			Path    string
			Visible bool
		}](w, `(() => {
			const e = document.activeElement, s = getComputedStyle(e);
			return { Path: e.tagName + (e.id ? "#" + e.id : "") + " " + (e.getAttribute("href") ?? ""), Visible: e === document.body || (s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2) };
		})()`)
		seen[at.Path] = true
		if !at.Visible {
			w.t.Errorf("%s: the focus on %s is not visible", name, at.Path)
		}
	}
	if len(seen) < 5 {
		w.t.Errorf("%s: Tab reaches %d places only", name, len(seen))
	}
}

// shoot writes the page's pictures for docs/img where asked to (COUNTERSIGN_SCREENSHOTS is the folder).
func (w *world) shoot(name string) {
	w.t.Helper()
	dir := os.Getenv("COUNTERSIGN_SCREENSHOTS")
	if dir == "" {
		return
	}
	w.each(func(look string) {
		ask[bool](w, "window.scrollTo(0, 0), true")
		picture, err := chromedp.Run(w.tab, chromedp.CaptureScreenshot())
		if err != nil {
			w.t.Fatal(err)
		}
		if len(picture) > 150_000 {
			w.t.Errorf("%s-%s: %d bytes, want fewer than 150,000", name, look, len(picture))
		}
		if err := os.WriteFile(filepath.Join(dir, name+"-"+look+".png"), picture, 0o644); err != nil {
			w.t.Error(err)
		}
	})
}

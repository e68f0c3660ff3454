package main

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/githubsim"
)

// spoken is what a command says while it runs.
type spoken struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *spoken) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *spoken) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await polls for a pattern in what was said.
func (s *spoken) await(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if found := re.FindStringSubmatch(s.String()); found != nil {
			return found
		}
	}
	t.Fatalf("never said %s:\n%s", pattern, s)
	return nil
}

func TestSetupCommand(t *testing.T) { // not parallel: the command reads the environment
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "COUNTERSIGN_") {
			t.Setenv(name, "")
			_ = os.Unsetenv(name)
		}
	}
	sim := githubsim.New(githubsim.Options{})
	t.Cleanup(sim.Close)
	sim.AddOrg("acme", "alice")
	sim.AddRepo("acme", "widgets", map[string]string{".github/countersign.toml": "schema_version = 1\nenabled = true\n"})
	dir := filepath.Join(t.TempDir(), "credentials")
	var out, said spoken
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	exit := make(chan int, 1)
	args := []string{"setup", "--org", "acme", "--name", "Gate", "--webhook", "http://127.0.0.1:9/webhooks/github", "--github-url", sim.URL(), "--out", dir, "--listen", "127.0.0.1:0"}
	go func() { exit <- run(ctx, args, strings.NewReader(""), &out, &said) }()
	page := said.await(t, `Open (http://\S+)`)[1]

	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	read := func(resp *http.Response, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %v\n%s", resp.StatusCode, err, body)
		}
		return string(body)
	}
	body := read(browser.Get(page + "?" + url.Values{"org": {"acme"}, "name": {"Gate"}, "webhook": {"http://127.0.0.1:9/webhooks/github"}}.Encode()))
	action := regexp.MustCompile(`method="post" action="([^"]+)"`).FindStringSubmatch(body)[1]
	manifest := regexp.MustCompile(`name="manifest" value="([^"]+)"`).FindStringSubmatch(body)[1]
	body = read(browser.PostForm(html.UnescapeString(action), url.Values{"manifest": {html.UnescapeString(manifest)}}))
	if !strings.Contains(body, "every permission and event") || strings.Contains(body, "PRIVATE KEY") {
		t.Errorf("the page says\n%s", body)
	}

	var id int64
	if _, err := fmt.Sscan(said.await(t, `\(App (\d+)\)`)[1], &id); err != nil {
		t.Fatal(err)
	}
	sim.AddInstallation(id, "acme")
	select {
	case code := <-exit:
		if code != exitFindings { // there is no database
			t.Errorf("exit %d\n%s", code, said.String())
		}
	case <-ctx.Done():
		t.Fatalf("it does not end:\n%s", said.String())
	}
	for _, want := range []string{"fail  database: ", "ok    github app: gate", "ok    permissions: ", "ok    installation ", "ok    webhooks: ", "ok    policy acme/widgets: ", "warn  required check acme/widgets: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("doctor does not say %q:\n%s", want, out.String())
		}
	}
	if code := run(t.Context(), args, strings.NewReader(""), io.Discard, &said); code != exitUsage || !strings.Contains(said.String(), "is not overwritten") {
		t.Errorf("a second time: exit %d\n%s", code, said.String())
	}
}

func TestSetupListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	var errs bytes.Buffer
	if code := run(t.Context(), []string{"setup", "--listen", "0.0.0.0:0", "--out", filepath.Join(t.TempDir(), "x")}, strings.NewReader(""), io.Discard, &errs); code != exitUsage || !strings.Contains(errs.String(), "loopback") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}

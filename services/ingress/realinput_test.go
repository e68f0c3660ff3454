package ingress

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// The payloads that GitHub really sent, as the package @octokit/webhooks-examples keeps them. They are fetched when the test
// runs and never committed. The digest pins what was seen when the expectations below were written.
const (
	examplesPackage = "@octokit/webhooks-examples@7.6.1"
	examplesArchive = "octokit-webhooks-examples-7.6.1.tgz"
	examplesSHA512  = "De6U3XB6O3DtCa7bKgCMzTHdeopqqZ6SNivMYJnK65ierKL1AnNIA0tkRYCRS7lwGT792d+Ps1WbfHlso6MynQ=="
	examplesCount   = 329
)

// example is one payload with the event it was sent as.
type example struct {
	event   string
	n       int
	payload obj
}

func (e example) action() string { s, _ := e.payload["action"].(string); return s }

func (e example) String() string { return fmt.Sprintf("%s.%s (example %d)", e.event, e.action(), e.n) }

// at reads a dotted path; nil where there is nothing.
func (e example) at(path string) any {
	var value any = e.payload
	for part := range strings.SplitSeq(path, ".") {
		object, _ := value.(map[string]any)
		value = object[part]
	}
	return value
}

func (e example) text(path string) string { s, _ := e.at(path).(string); return s }

func (e example) number(path string) int64 {
	n, _ := e.at(path).(json.Number)
	v, _ := n.Int64()
	return v
}

// examples fetches the package into a cache that git ignores, or finds it there.
func examples(t *testing.T) []example {
	t.Helper()
	if testing.Short() {
		t.Skip("real payloads are fetched from the npm registry: not with -short")
	}
	dir := cacheDir(t)
	archive := filepath.Join(dir, examplesArchive)
	data, err := os.ReadFile(archive)
	if errors.Is(err, os.ErrNotExist) {
		data, err = fetchExamples(t.Context(), dir)
	}
	if err != nil {
		t.Fatalf("%s is needed and could not be fetched: %v\nInstall npm and give it a registry it can reach, or run with -short to leave real input untested.", examplesPackage, err)
	}
	if sum := sha512.Sum512(data); base64.StdEncoding.EncodeToString(sum[:]) != examplesSHA512 {
		t.Fatalf("%s is not the package whose digest this test pins; delete it and run again", archive)
	}
	return readExamples(t, data)
}

// cacheDir is .cache at the root of the repository.
func cacheDir(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	dir = filepath.Join(dir, ".cache", "npm-pack")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func fetchExamples(ctx context.Context, dir string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	fresh, err := os.MkdirTemp(dir, "fetch-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(fresh)
	cmd := exec.CommandContext(ctx, "npm", "pack", "--ignore-scripts", "--silent", "--pack-destination", fresh, examplesPackage)
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm pack: %w\n%s", err, out)
	}
	path := filepath.Join(fresh, examplesArchive)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	// Whole or not at all: another test process may look at the same moment.
	return data, os.Rename(path, filepath.Join(dir, examplesArchive))
}

func readExamples(t *testing.T, archive []byte) []example {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if err != nil {
			t.Fatalf("package/api.github.com/index.json in %s: %v", examplesArchive, err)
		}
		if header.Name != "package/api.github.com/index.json" {
			continue
		}
		var groups []struct {
			Name     string
			Examples []obj
		}
		decoder := json.NewDecoder(io.LimitReader(files, 64<<20))
		decoder.UseNumber() // what is posted must be what was sent
		if err := decoder.Decode(&groups); err != nil {
			t.Fatal(err)
		}
		var all []example
		for _, g := range groups {
			for n, payload := range g.Examples {
				all = append(all, example{g.Name, n, payload})
			}
		}
		return all
	}
}

// expectation is what the spec says about one payload, written down from the spec and not from the code.
type expectation struct {
	status int
	rows   string // nothing, direct, group, installation, repository or base
	line   string // the spec line
}

var nothing = expectation{http.StatusAccepted, "nothing", "RG-036"}

// specMap is spec sections C and D for the (event, action) pairs that create work whatever else a payload says. An event with
// "*" maps every action.
var specMap = map[string]map[string]expectation{
	"pull_request": actions("direct", "RG-050", "opened", "reopened", "synchronize", "ready_for_review", "converted_to_draft", "edited",
		"labeled", "unlabeled", "review_requested", "review_request_removed", "closed"),
	"pull_request_review":       actions("direct", "RG-052", "submitted", "edited", "dismissed"),
	"label":                     actions("repository", "RG-076", "*"),
	"member":                    actions("repository", "RG-076", "*"),
	"team_add":                  actions("repository", "RG-076", "*"),
	"membership":                actions("installation", "RG-077", "*"),
	"team":                      actions("installation", "RG-077", "*"),
	"organization":              actions("installation", "RG-077", "*"),
	"repository":                actions("installation", "RG-079", "renamed", "transferred", "unarchived"),
	"installation":              actions("installation", "RG-081", "created", "unsuspend", "new_permissions_accepted"),
	"installation_repositories": actions("installation", "RG-082", "added"),
	"installation_target":       actions("installation", "RG-086", "renamed"),
	"merge_group":               actions("group", "D6", "checks_requested", "destroyed"),
}

func actions(rows, line string, names ...string) map[string]expectation {
	all := map[string]expectation{}
	for _, name := range names {
		all[name] = expectation{http.StatusAccepted, rows, line}
	}
	return all
}

// expected reads the spec for one payload, of an App with the given id.
func expected(e example, app int64) expectation {
	want := nothing
	switch e.event {
	case "push": // RG-070, RG-071; none of the examples is of an organization's policy repository
		if strings.HasPrefix(e.text("ref"), "refs/heads/") && e.at("deleted") != true {
			want = expectation{http.StatusAccepted, "base", "RG-070"}
		}
	case "check_run": // RG-037, RG-038, RG-039, RG-053, RG-054
		pulls, _ := e.at("check_run.pull_requests").([]any)
		asked := e.action() == "rerequested" || (e.action() == "requested_action" && e.text("requested_action.identifier") == "re-evaluate")
		if asked && len(pulls) == 1 && e.number("check_run.app.id") == app {
			want = expectation{http.StatusAccepted, "direct", "RG-053"}
		}
	default:
		mapped, ok := specMap[e.event][e.action()]
		if !ok {
			mapped, ok = specMap[e.event]["*"]
		}
		if ok {
			want = mapped
		}
	}
	if strings.HasPrefix(e.event, "pull_request") && want.rows == "direct" && e.text("pull_request.state") == "closed" && e.action() != "closed" {
		want = expectation{http.StatusAccepted, "nothing", "RG-051"}
	}
	if want.rows != "nothing" && e.number("installation.id") <= 0 {
		want = expectation{http.StatusBadRequest, "nothing", "RG-032"} // the hook was a repository's, not an App's
	}
	return want
}

func (b *bench) empty() {
	b.tb.Helper()
	// One statement deletes faster than TRUNCATE makes seven new files.
	b.exec("DELETE FROM evaluation; DELETE FROM delivery; DELETE FROM merge_group; DELETE FROM head; DELETE FROM pull; DELETE FROM authority; DELETE FROM repository; DELETE FROM installation")
}

// wantRows checks that the database, which was empty, holds exactly what one payload must leave.
func (b *bench) wantRows(e example, id string, want expectation) {
	b.tb.Helper()
	installation, repo := e.number("installation.id"), e.number("repository.id")
	reason := strings.TrimSuffix(e.event+"."+e.action(), ".")
	counts := map[string]int64{}
	switch want.rows {
	case "direct":
		number, head := e.number("pull_request.number"), e.text("pull_request.head.sha")
		counts = map[string]int64{"delivery": 1, "installation": 1, "repository": 1, "pull": 1, "head": 1, "evaluation": 1}
		if before := e.text("before"); e.event == "pull_request" && e.action() == "synchronize" && before != head {
			counts["head"] = 2 // P7: the head that was left is revoked too
			b.wantInt(1, "SELECT count(*) FROM head WHERE head_sha = $1 AND invalidated_generation < generation", before)
		}
		key := []any{installation, repo, number, head}
		b.wantInt(1, "SELECT count(*) FROM delivery WHERE installation_id = $1 AND repository_id = $2 AND number = $3 AND head_sha = $4 AND delivery_id = $5 AND event = $6 AND action = $7 AND head_generation = 1 AND scope = ''",
			append(key, id, e.event, e.action())...)
		b.wantInt(1, "SELECT count(*) FROM pull WHERE installation_id = $1 AND repository_id = $2 AND number = $3 AND head_sha = $4 AND state = $5 AND base_ref = $6 AND generation = 1",
			append(key, e.text("pull_request.state"), e.text("pull_request.base.ref"))...)
		b.wantInt(1, "SELECT count(*) FROM head WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND generation = 1 AND invalidated_generation = 0", installation, repo, head)
		b.wantInt(1, "SELECT count(*) FROM evaluation WHERE installation_id = $1 AND repository_id = $2 AND number = $3 AND head_sha = $4 AND head_generation = 1 AND delivery_id = $5 AND reason = $6 AND lane = 0",
			append(key, id, reason)...)
		b.wantInt(1, "SELECT count(*) FROM repository WHERE installation_id = $1 AND repository_id = $2 AND full_name = $3", installation, repo, strings.ToLower(e.text("repository.full_name")))
	case "group":
		counts = map[string]int64{"delivery": 1, "installation": 1, "repository": 1, "head": 1}
		head := e.text("merge_group.head_sha")
		b.wantInt(1, "SELECT count(*) FROM merge_group WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND head_ref = $4 AND base_ref = $5 AND base_sha = $6 AND waiting AND delivery_id = $7 AND reason = $8",
			installation, repo, head, e.text("merge_group.head_ref"), strings.TrimPrefix(e.text("merge_group.base_ref"), "refs/heads/"), e.text("merge_group.base_sha"), id, reason)
		b.wantInt(1, "SELECT count(*) FROM head WHERE head_sha = $1 AND generation = 1 AND invalidated_generation = 0", head)
		b.wantInt(1, "SELECT count(*) FROM delivery WHERE delivery_id = $1 AND head_sha = $2 AND head_generation = 1 AND number = 0", id, head)
	case "installation", "repository", "base":
		counts = map[string]int64{"delivery": 1, "installation": 1, "authority": 1}
		branch := ""
		switch want.rows {
		case "installation":
			repo = 0
		case "base":
			branch = strings.TrimPrefix(e.text("ref"), "refs/heads/")
		}
		if repo != 0 {
			counts["repository"] = 1
		}
		b.wantInt(1, "SELECT count(*) FROM authority WHERE installation_id = $1 AND scope = $2 AND repository_id = $3 AND base_ref = $4 AND reason = $5 AND delivery_id = $6 AND generation = 1",
			installation, want.rows, repo, branch, reason, id)
		b.wantInt(1, "SELECT count(*) FROM delivery WHERE installation_id = $1 AND scope = $2 AND repository_id = $3 AND base_ref = $4 AND delivery_id = $5 AND event = $6 AND action = $7 AND head_sha = '' AND number = 0",
			installation, want.rows, repo, branch, id, e.event, e.action())
	}
	for table, n := range b.rows() {
		if n != counts[table] {
			b.tb.Errorf("%d rows in %s, want %d", n, table, counts[table])
		}
	}
}

// postAll posts each payload, signed, to a running ingress over an empty database, and holds it to the spec.
func postAll(t *testing.T, all []example, app int64) map[string]int {
	t.Helper()
	b := overPostgres(t, offline(), func(c *Config) { c.AppID = app })
	oracle := b.db.Store(storetest.Owner)
	seen := map[string]int{}
	for _, e := range all {
		want := expected(e, app)
		id := b.deliveryID()
		r := b.redeliver(id, e.event, e.payload)
		if want.status == http.StatusAccepted {
			r.wantBody(t, true, want.rows != "nothing")
		} else {
			r.want(t, want.status)
		}
		b.wantRows(e, id, want)
		if want.rows != "nothing" {
			if broken, err := store.CheckInvariants(t.Context(), oracle); err != nil || len(broken) != 0 {
				t.Errorf("%s: the oracle: %v %v", e, broken, err)
			}
			r = b.redeliver(id, e.event, e.payload).wantBody(t, false, false)
			b.wantRows(e, id, want)
			b.empty()
		}
		if t.Failed() {
			t.Fatalf("%s: %s wants %d and %s; got %d %s", e, want.line, want.status, want.rows, r.status, r.text)
		}
		seen[fmt.Sprintf("%d %s", want.status, want.rows)]++
	}
	if strings.Contains(b.log.String(), "panicked") {
		t.Errorf("a payload made the server panic:\n%s", b.log)
	}
	if lines := len(b.log.lines(t)); lines != len(all)+seen["202 direct"]+seen["202 installation"]+seen["202 repository"]+seen["202 base"]+seen["202 group"] {
		t.Errorf("%d log lines, want one a request", lines)
	}
	return seen
}

func TestRealInput(t *testing.T) {
	t.Parallel()
	all := examples(t)
	if len(all) != examplesCount {
		t.Fatalf("%d payloads, want %d", len(all), examplesCount)
	}
	t.Run("as they were sent", func(t *testing.T) {
		t.Parallel()
		seen := postAll(t, all, appID)
		t.Logf("%d payloads: %v", len(all), seen)
		if seen["202 direct"] == 0 || seen["202 installation"] == 0 || seen["202 repository"] == 0 || seen["202 base"] == 0 || seen["400 nothing"] == 0 {
			t.Errorf("an outcome was never seen: %v", seen)
		}
	})
	t.Run("as an App's own hook would have sent them", func(t *testing.T) {
		t.Parallel()
		// Many examples come from a repository's hook, which names no installation. With one, each mapped pair leaves its rows.
		var ours []example
		pairs := map[string]bool{}
		for _, e := range all {
			e.payload = clone(t, e.payload)
			if e.at("installation.id") == nil {
				e.payload["installation"] = obj{"id": json.Number("7")}
			}
			ours = append(ours, e)
			if expected(e, appID).rows != "nothing" {
				pairs[e.event+"."+e.action()] = true
			}
		}
		seen := postAll(t, ours, appID)
		t.Logf("%d payloads, %d mapped (event, action) pairs: %v", len(ours), len(pairs), seen)
		if seen["400 nothing"] != 0 {
			t.Errorf("refused although an installation is named: %v", seen)
		}
	})
	t.Run("to the App whose check runs they name", func(t *testing.T) {
		t.Parallel()
		var runs []example
		for _, e := range all {
			if e.event == "check_run" {
				e.payload = clone(t, e.payload)
				e.payload["installation"] = obj{"id": json.Number("7")}
				runs = append(runs, e)
			}
		}
		for _, app := range []int64{29310, 25811, 2} {
			t.Logf("App %d: %v", app, postAll(t, runs, app))
		}
	})
	t.Run("all into one database, twice", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil) // ends with the oracle over all of it
		for range 2 {
			for i, e := range all {
				if r := b.redeliver(fmt.Sprintf("real-%d", i), e.event, e.payload); r.status != expected(e, appID).status {
					t.Errorf("%s: %d, want %d", e, r.status, expected(e, appID).status)
				}
			}
		}
	})
}

func clone(t *testing.T, payload obj) obj {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(encode(t, payload)))
	decoder.UseNumber()
	var out obj
	if err := decoder.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

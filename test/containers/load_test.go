//go:build containers

package containers

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const repository = "acme/widgets"

func dockerBoth(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// people act on the stand-in over GitHub's API.
type people struct {
	root, token string
	client      *http.Client
}

// people reads dave's token from what the stand-in printed at its last start.
func (s *stack) people(t *testing.T) people {
	t.Helper()
	c := s.containers(t, "github")[0]
	tokens := regexp.MustCompile(`dave (ghp_\w+)`).FindAllStringSubmatch(docker(t, "logs", c.ID), -1)
	if len(tokens) == 0 {
		t.Fatal("the stand-in printed no token")
	}
	return people{
		root: "https://" + c.hostAddress("8790"), token: tokens[len(tokens)-1][1],
		// The certificate is good for another name than a published port's.
		client: &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}},
	}
}

func (p people) ask(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, p.root+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+p.token)
	response, err := p.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		t.Fatalf("%s %s: %d %s %v", method, path, response.StatusCode, got, err)
	}
	if err := json.Unmarshal(got, answer); err != nil {
		t.Fatal(err)
	}
}

// openPull opens a pull request with one file, from a branch of its own, and returns it as the API shows it.
func (p people) openPull(t *testing.T, i int) map[string]any {
	t.Helper()
	branch := fmt.Sprintf("load-%d-%d", time.Now().UnixNano(), i)
	var ref struct {
		Object struct {
			SHA string `json:"sha"`
		} `json:"object"`
	}
	p.ask(t, "GET", "/repos/"+repository+"/git/ref/heads/main", nil, &ref)
	var ignored map[string]any
	p.ask(t, "POST", "/repos/"+repository+"/git/refs", map[string]string{"ref": "refs/heads/" + branch, "sha": ref.Object.SHA}, &ignored)
	p.ask(t, "PUT", "/repos/"+repository+"/contents/docs/"+branch+".md", map[string]string{
		"message": "add a page", "branch": branch, "content": base64.StdEncoding.EncodeToString([]byte("# " + branch + "\n")),
	}, &ignored)
	var pull map[string]any
	p.ask(t, "POST", "/repos/"+repository+"/pulls", map[string]string{"title": "Add a page", "head": branch, "base": "main"}, &pull)
	return pull
}

// sent is one delivery that was sent.
type sent struct {
	id      string
	status  int
	took    time.Duration
	refused int // connections that were refused
	cut     int // connections that a closing listener had not accepted, and that were reset
	err     error
}

// sender posts signed webhooks to the replicas of ingress in turn, each on a connection of its own. As a proxy does, it tries
// the next where a connection is refused, or reset by a listener that closes before it accepted it.
type sender struct {
	secret       []byte
	installation any
	client       *http.Client

	mu        sync.Mutex
	addresses []string
}

func (s *sender) post(pull map[string]any, n int) sent {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	d := sent{id: fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])}
	base, _ := pull["base"].(map[string]any)
	body, err := json.Marshal(map[string]any{
		"action": "synchronize", "number": pull["number"], "pull_request": pull, "repository": base["repo"], "installation": s.installation, "sender": pull["user"],
	})
	if err != nil {
		d.err = err
		return d
	}
	mac := hmac.New(sha256.New, s.secret)
	mac.Write(body)
	signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	s.mu.Lock()
	addresses := slices.Clone(s.addresses)
	s.mu.Unlock()
	began := time.Now()
	for i := range addresses {
		request, err := http.NewRequest(http.MethodPost, "http://"+addresses[(n+i)%len(addresses)]+"/webhooks/github", bytes.NewReader(body))
		if err != nil {
			d.err = err
			return d
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "X-GitHub-Event": "pull_request", "X-GitHub-Delivery": d.id, "X-Hub-Signature-256": signature} {
			request.Header.Set(name, value)
		}
		response, err := s.client.Do(request)
		var dial *net.OpError
		if d.err = err; errors.As(err, &dial) && dial.Op == "dial" {
			d.refused++
			continue
		}
		if errors.Is(err, syscall.ECONNRESET) {
			d.cut++ // judge asks the next replica's log whether this one had taken it
			continue
		}
		d.took = time.Since(began)
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			d.status = response.StatusCode
		}
		return d
	}
	return d
}

// ingressAddresses are those of the replicas on the engine's network. The published ports lead through a process of the engine
// that accepts for a container that does not, and then cuts the connection.
func (s *stack) ingressAddresses(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, c := range s.containers(t, "ingress") {
		if address := c.address(); address != "" {
			all = append(all, address+":8081")
		}
	}
	return all
}

// rollUnderLoad restarts every replica of every service, one after the other, under a steady load.
func (s *stack) rollUnderLoad(t *testing.T) {
	t.Helper()
	s.play(t, nil)
	people := s.people(t)
	var pulls []map[string]any
	for i := range 20 {
		pulls = append(pulls, people.openPull(t, i))
	}
	secret := docker(t, "run", "--rm", "--network", "none", "--user", "0", "--entrypoint", "cat", "-v", s.project+"_secrets-ingress:/s:ro",
		s.imageOf(t, "postgres"), "/s/webhook-secret")
	var installations []struct {
		ID int64 `json:"installation_id"`
	}
	if err := json.Unmarshal([]byte(s.query(t, "SELECT coalesce(json_agg(json_build_object('installation_id', installation_id)), '[]') FROM repository WHERE repository_id = "+repositoryID(t, pulls[0]))), &installations); err != nil || len(installations) != 1 {
		t.Fatalf("the repository's installation: %v %v", installations, err)
	}
	send := &sender{
		secret: []byte(strings.TrimSpace(secret)), installation: map[string]any{"id": installations[0].ID}, addresses: s.ingressAddresses(t),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: 500 * time.Millisecond}).DialContext,
		}},
	}
	stop, results := make(chan struct{}), make(chan []sent, 1)
	go func() { results <- send.steadily(pulls, 20, stop) }()
	for _, service := range services {
		for _, c := range s.containers(t, service) {
			docker(t, "restart", "--time", "35", c.ID)
			send.mu.Lock()
			send.addresses = s.ingressAddresses(t)
			send.mu.Unlock()
			s.awaitHealthy(t)
		}
	}
	close(stop)
	s.judge(t, <-results)
}

// steadily sends rate webhooks a second until stop is closed; each waits for its answer by itself.
func (s *sender) steadily(pulls []map[string]any, rate int, stop <-chan struct{}) []sent {
	var mu sync.Mutex
	var all []sent
	var wg sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-stop:
			wg.Wait()
			return all
		case <-tick.C:
		}
		wg.Go(func() {
			d := s.post(pulls[n%len(pulls)], n)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, d)
		})
	}
}

// judge looks for each accepted delivery in the database, and prints what came of the load.
func (s *stack) judge(t *testing.T, all []sent) {
	t.Helper()
	refused, cut, accepted := 0, 0, map[string]bool{}
	var took []time.Duration
	statuses := map[int]int{}
	for _, d := range all {
		refused += d.refused
		cut += d.cut
		if d.cut > 0 && s.duplicate(t, d.id) {
			t.Errorf("delivery %s was taken by a replica that then cut it", d.id)
		}
		if d.err != nil {
			t.Errorf("delivery %s: %v", d.id, d.err)
			continue
		}
		statuses[d.status]++
		took = append(took, d.took)
		if d.status/100 == 2 {
			accepted[d.id] = true
		} else {
			t.Errorf("delivery %s: status %d", d.id, d.status)
		}
	}
	kept := map[string]bool{}
	for _, id := range strings.Fields(s.query(t, "SELECT delivery_id FROM delivery")) {
		kept[id] = true
	}
	lost := 0
	for id := range accepted {
		if !kept[id] {
			lost++
		}
	}
	if lost > 0 || len(accepted) == 0 {
		t.Errorf("%d of %d accepted deliveries are not in the database", lost, len(accepted))
	}
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(time.Millisecond) }
	t.Logf("%d webhooks, statuses %v, %d connections refused and %d reset before they were accepted, each tried at the next replica, %d lost; p50 %s, p99 %s, longest %s",
		len(all), statuses, refused, cut, lost, at(0.5), at(0.99), at(1))
}

// duplicate tells whether an ingress found this delivery stored already.
func (s *stack) duplicate(t *testing.T, id string) bool {
	t.Helper()
	for _, c := range s.containers(t, "ingress") {
		for line := range strings.Lines(dockerBoth(t, "logs", c.ID)) {
			if strings.Contains(line, id) && strings.Contains(line, `"result":"duplicate"`) {
				return true
			}
		}
	}
	return false
}

// query asks the database as its owner, inside its container, and returns the rows unaligned.
func (s *stack) query(t *testing.T, sql string) string {
	t.Helper()
	return docker(t, "exec", s.containers(t, "postgres")[0].ID, "psql", "--username=countersign", "--dbname=countersign", "--no-psqlrc", "-At", "-c", sql)
}

func (s *stack) imageOf(t *testing.T, service string) string {
	t.Helper()
	return strings.TrimSpace(docker(t, "inspect", "--format", "{{.Config.Image}}", s.containers(t, service)[0].ID))
}

// repositoryID is the numeric id in a pull request's base.
func repositoryID(t *testing.T, pull map[string]any) string {
	t.Helper()
	base, _ := pull["base"].(map[string]any)
	repo, _ := base["repo"].(map[string]any)
	id, ok := repo["id"].(float64)
	if !ok {
		t.Fatalf("a pull request without a repository: %v", pull)
	}
	return fmt.Sprintf("%.0f", id)
}

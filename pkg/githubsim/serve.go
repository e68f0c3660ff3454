package githubsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	defaultAPIVersion = "2022-11-28"
	laterAPIVersion   = "2026-03-10"
	mediaRaw          = "raw"
)

// call is one request on its way through the stand-in.
type call struct {
	s       *Sim
	w       *world // what the request sees
	r       *http.Request
	route   *route
	vars    map[string]string
	prefix  string // "" or /api/v3
	version string
	body    []byte
	who     principal
	repo    *repo
	pull    *pull
	header  http.Header
	entry   Request
	crowded bool // more requests in flight than Switches.MaxConcurrent
	arrival int64
}

// answer is what a handler made of a call.
type answer struct {
	status int
	body   any    // marshalled to JSON unless raw is set
	raw    []byte // sent as it is
	media  string // Content-Type of raw
}

func ok(body any) answer { return answer{status: http.StatusOK, body: body} }

func refused(e *refusal) answer { return answer{status: e.status, body: e.body()} }

// failed turns an error of the world into an answer.
func failed(err error) answer {
	var e *refusal
	if errors.As(err, &e) {
		return refused(e)
	}
	return refused(unprocessable(err.Error()))
}

// serve is the way of every request.
func (s *Sim) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 25<<20))
	if err != nil {
		return // the client is gone
	}
	c := &call{s: s, r: r, body: body, header: w.Header(), version: defaultAPIVersion}
	path := r.URL.EscapedPath()
	if rest, is := strings.CutPrefix(path, "/api/v3"); is {
		c.prefix, path = "/api/v3", rest
	}
	if path == "/api/graphql" {
		path = "/graphql"
	}
	r.Body = io.NopCloser(bytes.NewReader(body)) // a page may read a form
	if s.page(w, r, path) {
		return
	}
	c.route, c.vars = s.match(r.Method, path)
	pattern := ""
	if c.route != nil {
		pattern = c.route.pattern
	}
	c.entry = Request{Method: r.Method, Route: pattern, Path: path, Query: r.URL.RawQuery, At: s.now()}
	fault, latency, leave := s.admit(c, pattern, body)
	defer leave()
	if !wait(r, latency, fault) {
		return
	}
	a := s.answer(c, fault)
	s.write(w, c, a, fault)
}

// admit counts a request as in flight until leave is called, and looks up what
// is to go wrong with it and how long it takes.
func (s *Sim) admit(c *call, pattern string, body []byte) (f *Fault, latency time.Duration, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.arrival = c.arrived()
	who, _ := s.authenticate(c.r)
	id := int64(0)
	if who.token != nil {
		id = who.token.installID
	}
	s.inFlight[id]++
	leave = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inFlight[id]--
	}
	c.crowded = id != 0 && s.switches.MaxConcurrent > 0 && s.inFlight[id] > s.switches.MaxConcurrent
	if f = s.faultFor(c.r, pattern, body); f == nil {
		return nil, s.switches.Latency, leave
	}
	still := *f
	return &still, s.switches.Latency + f.Delay, leave
}

// wait holds a request for its latency and its fault; false: the client is gone.
func wait(r *http.Request, latency time.Duration, f *Fault) bool {
	if latency > 0 {
		timer := time.NewTimer(latency)
		defer timer.Stop()
		if f != nil && f.Late {
			<-timer.C
			return true
		}
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return false
		}
	}
	if f != nil && f.Until != nil {
		select {
		case <-f.Until:
		case <-r.Context().Done():
			return false
		}
	}
	return true
}

// answer computes the true answer under the lock, or what a fault makes of it.
func (s *Sim) answer(c *call, f *Fault) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f != nil && !f.Applied && !f.Lie && f.Answer != AnswerTruth && f.Answer != AnswerTruncated && f.Answer != AnswerNotJSON {
		_ = s.identify(c) // for the log and for the text of a rate limit
		return c.faulty(f)
	}
	if f != nil && f.Lie {
		return s.lie(c)
	}
	a := s.process(c)
	if f != nil && f.Answer != AnswerTruth && f.Answer != AnswerTruncated && f.Answer != AnswerNotJSON {
		return c.faulty(f)
	}
	return a
}

// lie lets a request change a copy of the world and shows its answer.
func (s *Sim) lie(c *call) answer {
	truth := s.world
	s.world, s.muted = truth.clone(), true
	defer func() { s.world, s.muted = truth, false }()
	return s.process(c)
}

func (s *Sim) identify(c *call) *refusal {
	who, refusal := s.authenticate(c.r)
	c.who = who
	if who.app != nil {
		c.entry.App = who.app.id
	}
	if who.token != nil {
		c.entry.Installation = who.token.installID
	}
	return refusal
}

// process is the honest way: version, credential, budget, route, handler.
func (s *Sim) process(c *call) answer {
	if v := c.r.Header.Get("X-GitHub-Api-Version"); v != "" {
		if !slices.Contains(s.opts.APIVersions, v) {
			return refused(refuse(400, fmt.Sprintf("%q is not a supported version of the REST API.", v)))
		}
		c.version = v
	}
	if e := s.identify(c); e != nil {
		return refused(e)
	}
	if c.route == nil {
		return refused(errNotFound)
	}
	if a, over := c.charge(); over {
		return a
	}
	if c.crowded || c.creates() {
		return c.secondaryLimit(0)
	}
	c.w = s.world
	if c.r.Method == http.MethodGet || c.route.read {
		c.w = s.readWorld()
	}
	if e := c.admit(); e != nil {
		return refused(e)
	}
	if len(c.route.need) > 0 && c.who.token != nil {
		c.header.Set("X-Accepted-GitHub-Permissions", c.route.need.String())
	}
	return c.route.handle(c)
}

// admit finds the repository of a route and checks what the caller may.
func (c *call) admit() *refusal {
	switch c.route.auth {
	case authJWT:
		if c.who.app == nil || c.who.token != nil {
			return refuse(401, "A JSON web token could not be decoded")
		}
		return nil
	case authAny:
		return nil
	}
	if c.who.token == nil {
		return errNoCredential
	}
	if owner, named := c.vars["owner"]; named {
		if e := c.findRepo(owner); e != nil {
			return e
		}
	}
	if c.who.user != nil {
		return c.admitUser()
	}
	if !c.route.need.met(c.s.effective(c.who.token)) && (c.repo == nil || c.repo.private || c.r.Method != http.MethodGet) {
		if strings.HasPrefix(c.route.pattern, "/orgs/") {
			return errNotFound // a team that one may not know of does not exist
		}
		return errForbidden
	}
	return nil
}

// findRepo resolves owner and repo: 404 outside the installation, 301 under a
// former name.
func (c *call) findRepo(owner string) *refusal {
	r, moved := c.w.repoNamed(owner + "/" + c.vars["repo"])
	if r == nil {
		return errNotFound
	}
	if c.who.user != nil {
		if c.w.userPermission(r, c.who.user.id) == "" {
			return errNotFound
		}
	} else if !c.s.sees(c.w, c.who.token, r) && (r.private || c.r.Method != http.MethodGet) {
		return errNotFound
	}
	if moved {
		target := c.apiRoot() + fmt.Sprintf("/repositories/%d", r.id) + c.afterRepo()
		c.header.Set("Location", target)
		return &refusal{status: 301, message: "Moved Permanently", docs: docsRoot + "/guides/best-practices-for-using-the-rest-api#follow-redirects"}
	}
	c.repo = r
	if number, named := c.vars["number"]; named {
		n, err := strconv.Atoi(number)
		if c.pull = r.pulls[n]; err != nil || c.pull == nil {
			return errNotFound
		}
	}
	return nil
}

// admitUser holds a person to their permission on the repository.
func (c *call) admitUser() *refusal {
	if c.repo == nil || c.r.Method == http.MethodGet {
		return nil
	}
	granted := c.w.userPermission(c.repo, c.who.user.id)
	if want := c.route.userRight; permissionRank[granted] < permissionRank[want] {
		return refuse(403, "Must have "+want+" rights to Repository.")
	}
	return nil
}

// apiRoot is the root that Link headers and url fields of this answer begin with.
func (c *call) apiRoot() string {
	if c.s.opts.HostURLs {
		return "http://" + c.r.Host + c.prefix
	}
	return c.s.url + c.prefix
}

// afterRepo is the rest of the request's path behind owner and repository.
func (c *call) afterRepo() string {
	path := strings.TrimPrefix(c.r.URL.EscapedPath(), c.prefix)
	parts := strings.SplitN(path, "/", 5) // "", repos, owner, repo, rest
	rest := ""
	if len(parts) == 5 {
		rest = "/" + parts[4]
	}
	if c.r.URL.RawQuery != "" {
		rest += "?" + c.r.URL.RawQuery
	}
	return rest
}

func (c *call) renderer() *renderer {
	x := c.s.renderer(c.w)
	x.version = c.version
	return x
}

func (c *call) query(name string) string { return c.r.URL.Query().Get(name) }

// decode reads a JSON body.
func (c *call) decode(into any) *refusal {
	if len(bytes.TrimSpace(c.body)) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.body, into); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return invalidRequest(fmt.Sprintf("For 'properties/%s', value is not a %s.", kind.Field, kind.Type))
		}
		if json.Valid(c.body) {
			return invalidRequest(err.Error())
		}
		return errParse
	}
	return nil
}

// write sends an answer: common headers, entity tag, and the transport faults.
func (s *Sim) write(w http.ResponseWriter, c *call, a answer, f *Fault) {
	payload := a.raw
	if a.raw == nil && a.body != nil {
		payload, _ = json.Marshal(a.body) // our own maps always marshal
	}
	h := w.Header()
	h.Set("X-GitHub-Request-Id", requestID())
	h.Set("X-GitHub-Media-Type", "github.v3; format=json")
	h.Set("X-GitHub-Api-Version-Selected", c.version)
	h.Set("Vary", "Accept, Authorization, Cookie, X-GitHub-OTP, Accept-Encoding, Accept, X-Requested-With")
	h.Set("Access-Control-Allow-Origin", "*")
	if v := s.opts.Enterprise; v != "" {
		h.Set("X-GitHub-Enterprise-Version", v)
	}
	media := a.media
	if media == "" {
		media = "application/json; charset=utf-8"
	}
	if f != nil && f.Answer == AnswerHangUp {
		s.record(c, 0)
		panic(http.ErrAbortHandler) //nolint:forbidigo // how net/http is told to close a connection without an answer
	}
	if f != nil && f.Answer == AnswerNotJSON {
		payload, media = []byte("<!DOCTYPE html><title>Unicorn!</title>"), "text/html; charset=utf-8"
	}
	if f != nil && f.Answer == AnswerTruncated {
		payload = payload[:len(payload)/2]
	}
	if c.r.Method == http.MethodGet && a.status == http.StatusOK && c.route != nil {
		tag := entityTag(c.r, c.version, payload)
		h.Set("Cache-Control", "private, max-age=60, s-maxage=60")
		if tagMatches(c.r.Header.Get("If-None-Match"), tag) {
			s.refund(c)
			h.Set("ETag", `"`+tag+`"`) // without W/, as recorded
			s.record(c, http.StatusNotModified)
			s.limitHeaders(c, h)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("ETag", `W/"`+tag+`"`)
	}
	s.record(c, a.status)
	s.limitHeaders(c, h)
	if len(payload) > 0 {
		h.Set("Content-Type", media)
	}
	w.WriteHeader(a.status)
	if a.status != http.StatusNoContent {
		_, _ = w.Write(payload)
	}
}

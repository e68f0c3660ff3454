package console

import (
	"context"
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// viewer is who looks, and what they may see.
type viewer struct {
	Login    string
	Operator bool // sees everything
	// only is what GitHub shows them; it means nothing of an operator.
	only  []store.RepositoryID
	sees  map[store.RepositoryID]bool
	token ghclient.PersonToken
}

// filter is the reader's part of a list's filter: nil is everything, which only an operator sees.
func (v viewer) filter() []store.RepositoryID {
	if v.Operator {
		return nil
	}
	if v.only == nil {
		return []store.RepositoryID{} // nil would be everything
	}
	return v.only
}

func (v viewer) maySee(id store.RepositoryID) bool { return v.Operator || v.sees[id] }

// people is what GitHub is asked about a person; *ghclient.People is one.
type people interface {
	AuthorizeURL(redirect, state, challenge string) string
	Exchange(ctx context.Context, code, verifier, redirect string) (ghclient.PersonToken, error)
	Viewer(ctx context.Context, t ghclient.PersonToken) (ghclient.Actor, error)
	Installations(ctx context.Context, t ghclient.PersonToken) ([]int64, error)
	Repositories(ctx context.Context, t ghclient.PersonToken, installation int64) ([]int64, error)
	InTeam(ctx context.Context, t ghclient.PersonToken, org, slug, login string) (bool, error)
}

// access knows who is signed in and what GitHub shows them.
type access struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	people  people // nil where no sign-in is needed
	seal    *sealer
	https   bool

	group singleflight.Group
	mu    sync.Mutex // guards seen
	seen  map[[32]byte]sight
}

// sight is one answer of GitHub's about a person.
type sight struct {
	viewer viewer
	until  time.Time
}

// maxSights bounds the cache; a person costs a few kilobytes.
const maxSights = 10_000

func newAccess(cfg Config, d Deps, m *metrics) (*access, error) {
	a := &access{cfg: cfg, deps: d, metrics: m, https: strings.HasPrefix(cfg.PublicURL, "https:"), seen: map[[32]byte]sight{}}
	if cfg.Open {
		return a, nil
	}
	p, err := ghclient.NewPeople(cfg.GitHub, cfg.SignIn, d.Transport)
	if err != nil {
		return nil, err
	}
	a.people = p
	a.seal, err = newSealer(cfg.SessionKey)
	return a, err
}

// signedIn lets a page see its viewer, sends who is not signed in to sign in, and shows nothing where GitHub cannot be asked.
func (c *Console) signedIn(serve func(http.ResponseWriter, *http.Request, viewer)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := c.access.viewer(r.Context(), r)
		live := strings.HasPrefix(r.URL.Path, "/live/")
		switch {
		case err == nil:
			serve(w, r, v)
		case errors.Is(err, errSignIn) && (live || r.Method != http.MethodGet):
			http.Error(w, "Sign in first.", http.StatusUnauthorized)
		case errors.Is(err, errSignIn):
			c.access.forget(w)
			http.Redirect(w, r, "/auth/login?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusFound)
		default:
			c.Log.WarnContext(r.Context(), "cannot tell what a person can see", daemon.KeyErr, err)
			c.problem(w, r, viewer{}, http.StatusServiceUnavailable, "GitHub could not be asked what you can see, so nothing is shown. Try again in a moment.")
		}
	}
}

// errSignIn: nobody is signed in, or no longer.
var errSignIn = errors.New("sign in first")

func (a *access) viewer(ctx context.Context, r *http.Request) (viewer, error) {
	if a.people == nil {
		return viewer{Login: "this machine", Operator: true}, nil
	}
	s, err := a.session(r)
	if err != nil {
		return viewer{}, errSignIn
	}
	return a.look(ctx, s)
}

// look is what GitHub shows the person, as it was within the access age. One person's concurrent requests share a question. An old
// answer is never used instead of one that failed: then nothing is shown.
func (a *access) look(ctx context.Context, s session) (viewer, error) {
	key := sha256.Sum256([]byte(s.Token))
	a.mu.Lock()
	held, ok := a.seen[key]
	a.mu.Unlock()
	if ok && a.deps.Now().Before(held.until) {
		a.metrics.access.WithLabelValues("cached").Inc()
		return held.viewer, nil
	}
	asked := a.group.DoChan(string(key[:]), func() (any, error) {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		began := a.deps.Now()
		v, err := a.ask(bounded, s)
		if err != nil {
			return viewer{}, err
		}
		a.keep(key, sight{viewer: v, until: began.Add(a.cfg.AccessAge)})
		return v, nil
	})
	select {
	case <-ctx.Done():
		return viewer{}, ctx.Err()
	case got := <-asked:
		result := "asked"
		switch {
		case errors.Is(got.Err, ghclient.ErrUnauthorized):
			result, got.Err = "expired", errSignIn
		case got.Err != nil:
			result = "failed"
		}
		a.metrics.access.WithLabelValues(result).Inc()
		if got.Err != nil {
			return viewer{}, got.Err
		}
		return got.Val.(viewer), nil
	}
}

func (a *access) keep(key [32]byte, s sight) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.seen) >= maxSights {
		for k, old := range a.seen {
			if len(a.seen) >= maxSights && !a.deps.Now().Before(old.until) {
				delete(a.seen, k)
			}
		}
		for k := range a.seen {
			if len(a.seen) < maxSights {
				break
			}
			delete(a.seen, k)
		}
	}
	a.seen[key] = s
}

// ask asks GitHub: is the person an operator, and if not, which repositories of the App's installations do they see.
func (a *access) ask(ctx context.Context, s session) (viewer, error) {
	token := ghclient.NewPersonToken(s.Token)
	v := viewer{Login: s.Login, token: token, sees: map[store.RepositoryID]bool{}}
	if org, team, given := strings.Cut(a.cfg.Operators, "/"); given {
		in, err := a.people.InTeam(ctx, token, org, team, s.Login)
		if err != nil {
			return viewer{}, err
		}
		v.Operator = in
	}
	installations, err := a.people.Installations(ctx, token)
	if err != nil {
		return viewer{}, err
	}
	for _, i := range installations {
		ids, err := a.people.Repositories(ctx, token, i)
		if errors.Is(err, ghclient.ErrNotFound) {
			continue // uninstalled meanwhile
		}
		if err != nil {
			return viewer{}, err
		}
		for _, id := range ids {
			if r := store.RepositoryID(id); !v.sees[r] {
				v.sees[r] = true
				v.only = append(v.only, r)
			}
		}
	}
	return v, nil
}

// local: the connection is from this machine, and the browser believes to speak to it: a name of somebody else's that leads here
// would let their pages read ours.
func (c *Console) local(r *http.Request) bool {
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	host := r.Host
	if h, _, serr := net.SplitHostPort(host); serr == nil {
		host = h
	}
	return err == nil && loopback(from) && loopback(host)
}

// sameOrigin: a form comes from our own page. Browsers that send neither header are refused.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	u, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && u.Host != "" && u.Host == r.Host
}

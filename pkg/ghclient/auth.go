package ghclient

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/singleflight"
)

const (
	// refreshBefore is how long before its end a token is no longer used (RG-245).
	refreshBefore = 5 * time.Minute
	// jwtLife stays below GitHub's ten minutes; jwtSkew allows our clock to be ahead of GitHub's.
	jwtLife = 9 * time.Minute
	jwtSkew = 60 * time.Second
	// maxToken is far above the long stateless form (ghs_APPID_JWT); only nonsense is longer.
	maxToken = 16 << 10
)

const opToken operation = "apps.create_token" //nolint:gosec // the name of an operation

// credential is what the request is sent with: the App's JWT, or the installation's token.
func (a *App) credential(ctx context.Context, c call) (string, error) {
	if c.perms == nil {
		return a.signer.jwt(a.now())
	}
	return a.tokens.get(ctx, c.installation, c.perms)
}

// signer makes the App's JWTs. The key never leaves it.
type signer struct {
	appID int64
	key   *rsa.PrivateKey

	mu    sync.Mutex // guards last and until
	last  string
	until time.Time
}

func newSigner(appID int64, pem string) (*signer, error) {
	if appID <= 0 {
		return nil, errors.New("COUNTERSIGN_GITHUB_APP_ID must be the App's positive numeric id, shown on its settings page")
	}
	key, err := parseKey(pem)
	if err != nil {
		return nil, err
	}
	return &signer{appID: appID, key: key}, nil
}

func (s *signer) jwt(now time.Time) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.until) && now.After(s.until.Add(-jwtLife)) {
		return s.last, nil
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.RegisteredClaims{
		Issuer:    strconv.FormatInt(s.appID, 10),
		IssuedAt:  jwt.NewNumericDate(now.Add(-jwtSkew)),
		ExpiresAt: jwt.NewNumericDate(now.Add(jwtLife)),
	}).SignedString(s.key)
	if err != nil {
		return "", fmt.Errorf("%w: the App's key cannot sign", ErrUnauthorized)
	}
	s.last, s.until = token, now.Add(jwtLife/2)
	return token, nil
}

// tokens holds installation tokens in memory and nowhere else (RG-243, RG-444), one for each installation and set of permissions.
type tokens struct {
	app   *App
	group singleflight.Group // one exchange at a time for each key

	mu   sync.Mutex // guards held
	held map[string]token
}

type token struct {
	text    string
	expires time.Time
}

func tokenKey(installation int64, p Permissions) string {
	return fmt.Sprintf("%d|%s", installation, p.key())
}

// key is the canonical text of p.
func (p Permissions) key() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p)) {
		b.WriteString(name + "=" + p[name] + ",")
	}
	return b.String()
}

func (p Permissions) without(name string) Permissions {
	fewer := maps.Clone(p)
	delete(fewer, name)
	return fewer
}

// get is a token with at least five minutes to live. Concurrent callers share one exchange, which outlives the caller that began it.
func (t *tokens) get(ctx context.Context, installation int64, p Permissions) (string, error) {
	key := tokenKey(installation, p)
	t.mu.Lock()
	held, ok := t.held[key]
	t.mu.Unlock()
	if ok && t.app.now().Before(held.expires.Add(-refreshBefore)) {
		return held.text, nil
	}
	exchange := t.group.DoChan(key, func() (any, error) {
		detached, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), t.app.cfg.RequestTimeout, errDeadline)
		defer cancel()
		fresh, err := t.exchange(detached, installation, p)
		if errors.Is(err, ErrInvalid) && p["members"] != "" && len(p) > 1 {
			// An account that is no organization has no members permission to grant, and no teams to need it for. In an organization
			// that didn't grant it, reading a team says so.
			fresh, err = t.exchange(detached, installation, p.without("members"))
		}
		if errors.Is(err, ErrUnavailable) && t.app.now().Before(held.expires.Add(-minDelay)) {
			return held.text, nil // renewal is early so that an outage like this one doesn't matter
		}
		if err != nil {
			return "", exchangeError(installation, p, err)
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.held[key] = fresh
		return fresh.text, nil
	})
	select {
	case <-ctx.Done():
		return "", endOf(ctx)
	case done := <-exchange:
		if done.Err != nil {
			return "", done.Err
		}
		return done.Val.(string), nil
	}
}

// evict forgets the token that was refused, unless it has been replaced meanwhile (RG-245).
func (t *tokens) evict(installation int64, p Permissions, refused string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := tokenKey(installation, p)
	if t.held[key].text == refused {
		delete(t.held, key)
	}
}

// exchange asks for one token, narrowed to p (RG-244).
func (t *tokens) exchange(ctx context.Context, installation int64, p Permissions) (token, error) {
	if len(p) == 0 { // to GitHub that would mean everything the installation has
		return token{}, &apiError{sentinel: ErrInvalid, op: opToken, text: "a client without permissions gets no token"}
	}
	body, err := json.Marshal(map[string]any{"permissions": p})
	if err != nil {
		return token{}, fmt.Errorf("%w: permissions: %w", ErrInvalid, err)
	}
	c := call{op: opToken, method: http.MethodPost, installation: installation, path: fmt.Sprintf("app/installations/%d/access_tokens", installation), body: body}
	got, _, err := t.app.attempt(ctx, c, func() {})
	t.app.count(c, err, got)
	if err != nil {
		return token{}, err
	}
	fresh, err := readToken(got.body, p, t.app.now())
	if err != nil {
		return token{}, &apiError{sentinel: ErrMalformed, op: opToken, cause: err}
	}
	return fresh, nil
}

// exchangeError says what a refused exchange means for the installation rather than for the route.
func exchangeError(installation int64, p Permissions, err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		return &apiError{sentinel: ErrInstallationGone, op: opToken, cause: fmt.Errorf("installation %d", installation)}
	case errors.Is(err, ErrInvalid):
		return &apiError{sentinel: ErrForbidden, op: opToken,
			text: fmt.Sprintf("installation %d has not granted all of %s; an owner has to accept the App's permissions", installation, p.key()), cause: plain{err}}
	}
	return err
}

// plain keeps an error's text and hides its identity, so that only one sentinel answers errors.Is.
type plain struct{ err error }

func (p plain) Error() string { return p.err.Error() }

// readToken validates an exchange's answer. The text may be of the short form, of the long one (ghs_APPID_JWT) or of one to come:
// nothing is assumed of it but that it can stand in a header.
func readToken(body []byte, p Permissions, now time.Time) (token, error) {
	root, err := parseObject(body)
	if err != nil {
		return token{}, err
	}
	text := root.at("token").text()
	if len(text) > maxToken || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		root.at("token").fail("visible ASCII of at most 16 KiB")
	}
	expires := root.at("expires_at").instant()
	if !expires.After(now) {
		root.at("expires_at").fail("a time that has not passed")
	}
	granted := root.at("permissions")
	for name, level := range p {
		if got := granted.at(name).optionalText(); got != level && got != "write" && got != "admin" {
			granted.at(name).fail("the level that was asked for, " + level)
		}
	}
	return token{text: text, expires: expires}, root.read.err
}

package githubsim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// principal is who makes a request: an App by JWT, an installation by token, a
// user by token, or nobody.
type principal struct {
	app   *app
	token *token
	user  *account
}

// token is an issued installation or user token.
type token struct {
	installID   int64
	userID      int64
	appID       int64 // of a person who signed in with an App; 0 for a token of their own
	permissions map[string]string
	repos       map[int64]bool // nil: all of the installation's
	expires     time.Time
}

// authenticate reads Authorization. The scheme may be Bearer or token.
func (s *Sim) authenticate(r *http.Request) (principal, *refusal) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return principal{}, nil
	}
	scheme, value, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "bearer") && !strings.EqualFold(scheme, "token") {
		return principal{}, errBadCredential
	}
	value = strings.TrimSpace(value)
	if t := s.tokens[value]; t != nil {
		return s.tokenPrincipal(t)
	}
	if strings.Count(value, ".") == 2 && !strings.HasPrefix(value, "ghs_") {
		return s.jwtPrincipal(value)
	}
	return principal{}, errBadCredential
}

func (s *Sim) tokenPrincipal(t *token) (principal, *refusal) {
	if t.userID != 0 {
		u := s.world.accounts[t.userID]
		if u == nil {
			return principal{}, errBadCredential
		}
		return principal{token: t, user: u}, nil
	}
	i := s.world.installs[t.installID]
	if i == nil || !s.now().Before(t.expires) {
		return principal{}, errBadCredential
	}
	if i.suspendedAt != nil {
		return principal{}, errSuspended
	}
	return principal{token: t, app: s.world.apps[i.appID]}, nil
}

// jwtPrincipal verifies an App's JWT: RS256 by the App's key, iss the App's id
// or client id, exp in the future and at most ten minutes ahead, iat not in the
// future. A minute of clock skew is not forgiven: GitHub does not either.
func (s *Sim) jwtPrincipal(text string) (principal, *refusal) {
	undecodable := refuse(401, "A JSON web token could not be decoded")
	var claims struct {
		Issuer  any      `json:"iss"`
		Issued  *float64 `json:"iat"`
		Expires *float64 `json:"exp"`
	}
	parts := strings.Split(text, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return principal{}, undecodable
	}
	a := s.appOfIssuer(claims.Issuer)
	if a == nil {
		return principal{}, refuse(401, "'Issuer' claim ('iss') must be an Integer")
	}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"RS256"}), jwt.WithoutClaimsValidation())
	if _, err := parser.Parse(text, func(*jwt.Token) (any, error) { return &a.key.PublicKey, nil }); err != nil {
		return principal{}, undecodable
	}
	now := float64(s.now().Unix())
	switch {
	case claims.Expires == nil || *claims.Expires <= now:
		return principal{}, refuse(401, "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires")
	case *claims.Expires > now+600:
		return principal{}, refuse(401, "'Expiration time' claim ('exp') is too far in the future")
	case claims.Issued == nil || *claims.Issued > now:
		return principal{}, refuse(401, "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued")
	}
	return principal{app: a}, nil
}

func (s *Sim) appOfIssuer(issuer any) *app {
	text := fmt.Sprint(issuer)
	if f, ok := issuer.(float64); ok {
		text = strconv.FormatInt(int64(f), 10)
	}
	for _, a := range s.world.apps {
		if text == strconv.FormatInt(a.id, 10) || text == a.clientID {
			return a
		}
	}
	return nil
}

// issue makes a token text. The long form carries a signed statement behind the
// App's id, as GitHub began to issue in 2026; nothing may be read out of it.
func (s *Sim) issue(t *token, appID int64) string {
	text := "ghs_" + hex.EncodeToString(randomBytes(18))
	if !s.switches.ShortTokens {
		statement, _ := json.Marshal(obj{
			"aud": "api", "exp": t.expires.Unix(), "iat": s.now().Unix(), "iss": "stand-in", "sub": fmt.Sprint(t.installID),
			"jti": hex.EncodeToString(randomBytes(16)), "permissions": t.permissions,
		})
		head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString(statement)
		mac := hmac.New(sha256.New, s.signer)
		mac.Write([]byte(head))
		text = fmt.Sprintf("ghs_%d_%s.%s", appID, head, base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
	}
	s.tokens[text] = t
	return text
}

// UserToken issues a token with which a person's requests are made, for acting
// in the world over the API. It never expires.
func (s *Sim) UserToken(login string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.world.account(login)
	if u == nil {
		misuse("UserToken: no account %q", login)
	}
	text := "ghp_" + hex.EncodeToString(randomBytes(18))
	s.tokens[text] = &token{userID: u.id}
	return text
}

// RevokeTokens ends every token of an installation: requests with it answer 401.
func (s *Sim) RevokeTokens(installID int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revokeTokens(installID)
}

func (s *Sim) revokeTokens(installID int64) {
	maps.DeleteFunc(s.tokens, func(_ string, t *token) bool { return t.installID == installID })
}

// need is what a route asks for: alternatives, each of them a set of
// permissions that are all needed, as in X-Accepted-GitHub-Permissions.
type need [][]grant

type grant struct{ name, level string }

func (n need) String() string {
	var alternatives []string
	for _, set := range n {
		var all []string
		for _, g := range set {
			all = append(all, g.name+"="+g.level)
		}
		alternatives = append(alternatives, strings.Join(all, ","))
	}
	return strings.Join(alternatives, "; ")
}

// parseNeed reads "pull_requests=read; contents=read".
func parseNeed(text string) need {
	if text == "" {
		return nil
	}
	var n need
	for alternative := range strings.SplitSeq(text, ";") {
		var set []grant
		for one := range strings.SplitSeq(alternative, ",") {
			name, level, _ := strings.Cut(strings.TrimSpace(one), "=")
			set = append(set, grant{name, level})
		}
		n = append(n, set)
	}
	return n
}

var levelRank = map[string]int{"": 0, "read": 1, "write": 2, "admin": 3}

func (n need) met(granted map[string]string) bool {
	if len(n) == 0 {
		return true
	}
	return slices.ContainsFunc(n, func(set []grant) bool {
		return !slices.ContainsFunc(set, func(g grant) bool { return levelRank[granted[g.name]] < levelRank[g.level] })
	})
}

// permissions of a token as they hold now: an installation that lost a
// permission after the token was made has lost it in the token too.
func (s *Sim) effective(t *token) map[string]string {
	i := s.world.installs[t.installID]
	have := map[string]string{}
	for name, level := range t.permissions {
		if levelRank[i.permissions[name]] < levelRank[level] {
			level = i.permissions[name]
		}
		if level != "" {
			have[name] = level
		}
	}
	return have
}

// sees reports whether a token covers a repository.
func (s *Sim) sees(w *world, t *token, r *repo) bool {
	i := w.installs[t.installID]
	return i != nil && i.has(r) && (t.repos == nil || t.repos[r.id])
}

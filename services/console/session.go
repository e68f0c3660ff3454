package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
)

// session is what the cookie holds, sealed: nobody but us can read or change it.
type session struct {
	Login   string `json:"login"`
	Token   string `json:"token"`
	Expires int64  `json:"exp"`
}

// flow is a sign-in that is under way, in a cookie of its own.
type flow struct {
	State    string `json:"state"`
	Verifier string `json:"verifier"`
	To       string `json:"to"`
	Expires  int64  `json:"exp"`
}

// flowLife is how long a person may take at GitHub.
const flowLife = 10 * time.Minute

// sealer encrypts cookies: AES-256-GCM, the key derived from the operator's, the cookie's name bound in.
type sealer struct{ aead cipher.AEAD }

func newSealer(key string) (*sealer, error) {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte("countersign console cookies, version 1"))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		return nil, fmt.Errorf("session key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("session key: %w", err)
	}
	return &sealer{aead: aead}, nil
}

var errCookie = errors.New("the cookie is not ours")

func (s *sealer) seal(name string, value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("seal a cookie: %w", err)
	}
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails on the platforms Go supports
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, text, []byte(name))), nil
}

func (s *sealer) open(name, text string, into any) error {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < s.aead.NonceSize() {
		return errCookie
	}
	plain, err := s.aead.Open(nil, raw[:s.aead.NonceSize()], raw[s.aead.NonceSize():], []byte(name))
	if err != nil || json.Unmarshal(plain, into) != nil {
		return errCookie
	}
	return nil
}

// cookieName is bound to the host by its prefix wherever the console is reached by https.
func (a *access) cookieName(kind string) string {
	if a.https {
		return "__Host-countersign-" + kind
	}
	return "countersign-" + kind
}

func (a *access) setCookie(w http.ResponseWriter, kind string, value any, life time.Duration) error {
	name := a.cookieName(kind)
	text, err := a.seal.seal(name, value)
	if err != nil {
		return err
	}
	http.SetCookie(w, &http.Cookie{Name: name, Value: text, Path: "/", MaxAge: int(life.Seconds()), HttpOnly: true, Secure: a.https, SameSite: http.SameSiteLaxMode})
	return nil
}

func (a *access) dropCookie(w http.ResponseWriter, kind string) {
	http.SetCookie(w, &http.Cookie{Name: a.cookieName(kind), Path: "/", MaxAge: -1, HttpOnly: true, Secure: a.https, SameSite: http.SameSiteLaxMode})
}

func (a *access) forget(w http.ResponseWriter) { a.dropCookie(w, "session") }

func (a *access) cookie(r *http.Request, kind string, into any) error {
	name := a.cookieName(kind)
	c, err := r.Cookie(name)
	if err != nil {
		return errCookie
	}
	return a.seal.open(name, c.Value, into)
}

func (a *access) session(r *http.Request) (session, error) {
	var s session
	if err := a.cookie(r, "session", &s); err != nil {
		return session{}, err
	}
	if a.deps.Now().Unix() >= s.Expires || s.Token == "" {
		return session{}, errCookie
	}
	return s, nil
}

func (a *access) redirectURL() string {
	return strings.TrimSuffix(a.cfg.PublicURL, "/") + "/auth/callback"
}

// login sends the browser to GitHub.
func (a *access) login(w http.ResponseWriter, r *http.Request) {
	if a.people == nil {
		http.Redirect(w, r, "/", http.StatusFound)
		return
	}
	f := flow{State: randomText(), Verifier: randomText() + randomText(), To: ownPath(r.URL.Query().Get("to")), Expires: a.deps.Now().Add(flowLife).Unix()}
	if err := a.setCookie(w, "flow", f, flowLife); err != nil {
		http.Error(w, "The sign-in could not be begun.", http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256([]byte(f.Verifier))
	http.Redirect(w, r, a.people.AuthorizeURL(a.redirectURL(), f.State, base64.RawURLEncoding.EncodeToString(sum[:])), http.StatusFound)
}

// ownPath is a page of ours, or the first one: a sign-in never leads to another site.
func ownPath(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.HasPrefix(to, "/\\") || strings.HasPrefix(to, "/auth/") || strings.HasPrefix(to, "/live/") || strings.ContainsAny(to, "\r\n\t") {
		return "/"
	}
	return to
}

// callback is where GitHub sends the browser back to.
func (a *access) callback(w http.ResponseWriter, r *http.Request) {
	var f flow
	q := r.URL.Query()
	if a.people == nil || a.cookie(r, "flow", &f) != nil || a.deps.Now().Unix() >= f.Expires || f.State == "" || !hmac.Equal([]byte(f.State), []byte(q.Get("state"))) || q.Get("code") == "" {
		a.metrics.signIns.WithLabelValues("refused").Inc()
		http.Error(w, "This sign-in was not begun here, or took too long. Open the console again.", http.StatusBadRequest)
		return
	}
	a.dropCookie(w, "flow")
	token, err := a.people.Exchange(r.Context(), q.Get("code"), f.Verifier, a.redirectURL())
	var who ghclient.Actor
	if err == nil {
		who, err = a.people.Viewer(r.Context(), token)
	}
	switch {
	case errors.Is(err, ghclient.ErrUnauthorized):
		a.metrics.signIns.WithLabelValues("refused").Inc()
		http.Error(w, "GitHub refused the sign-in. Open the console again.", http.StatusBadRequest)
		return
	case err != nil:
		a.metrics.signIns.WithLabelValues("failed").Inc()
		a.deps.Log.WarnContext(r.Context(), "sign-in failed", daemon.KeyErr, err)
		http.Error(w, "GitHub could not be asked. Try again in a moment.", http.StatusServiceUnavailable)
		return
	}
	s := session{Login: who.Login, Token: token.Reveal(), Expires: a.deps.Now().Add(a.cfg.Session).Unix()}
	if err := a.setCookie(w, "session", s, a.cfg.Session); err != nil {
		http.Error(w, "The session could not be kept.", http.StatusInternalServerError)
		return
	}
	a.metrics.signIns.WithLabelValues("ok").Inc()
	http.Redirect(w, r, f.To, http.StatusFound)
}

// logout ends the session of this browser.
func (a *access) logout(w http.ResponseWriter, _ *http.Request) {
	if a.people != nil {
		a.forget(w)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("You are signed out.\n")) // the reader has gone
}

func randomText() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails on the platforms Go supports
	return base64.RawURLEncoding.EncodeToString(b)
}

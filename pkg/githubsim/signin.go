package githubsim

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html/template"
	"net/http"
	"strconv"
)

var authorizeTemplate = template.Must(template.New("authorize").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Sign in to the GitHub stand-in</title></head><body>
<h1>Who are you?</h1><p>{{.App}} wants to know. There are no passwords here.</p>
<ul>{{range .People}}<li><a href="?{{.Query}}">{{.Login}}</a></li>{{end}}</ul></body></html>
`))

// SignIn is a person who agrees that an App may act for them; it returns the code that the browser comes back with. challenge is the
// S256 challenge of RFC 7636, "" without one.
func (s *Sim) SignIn(appID int64, login, challenge string) (code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.world.account(login)
	if u == nil || s.world.apps[appID] == nil {
		misuse("SignIn: no account %q or no App %d", login, appID)
	}
	return s.newCode(&pendingCode{appID: appID, userID: u.id, challenge: challenge, expires: s.now().Add(signInLife)})
}

// authorizePage is GitHub's page at /login/oauth/authorize. With the parameter login it agrees at once, as a browser that is signed in and
// has agreed before.
func (s *Sim) authorizePage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	a := s.appOfIssuer(q.Get("client_id"))
	login := s.world.account(q.Get("login"))
	var people []struct{ Login, Query string }
	for _, id := range sortedKeys(s.world.accounts) {
		if u := s.world.accounts[id]; u.kind == "User" {
			with := r.URL.Query()
			with.Set("login", u.login)
			people = append(people, struct{ Login, Query string }{u.login, with.Encode()})
		}
	}
	s.mu.Unlock()
	switch method := q.Get("code_challenge_method"); {
	case a == nil:
		http.NotFound(w, r)
	case q.Get("code_challenge") != "" && method != "S256":
		http.Error(w, "code_challenge_method has to be S256", http.StatusBadRequest)
	case login == nil || login.kind != "User":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = authorizeTemplate.Execute(w, map[string]any{"App": a.name, "People": people}) // the client is gone
	default:
		sendBack(w, r, q.Get("redirect_uri"), s.SignIn(a.id, login.login, q.Get("code_challenge")), q.Get("state"))
	}
}

// exchange is POST /login/oauth/access_token. Refusals are a 200 that names an error, as GitHub's are.
func (s *Sim) exchange(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	a := s.appOfIssuer(r.FormValue("client_id"))
	o := obj{}
	switch p := s.takeCode(r.FormValue("code")); {
	case a == nil || r.FormValue("client_secret") != a.clientSecret:
		o["error"], o["error_description"] = "incorrect_client_credentials", "The client_id and/or client_secret passed are incorrect."
	case p == nil || p.appID != a.id || p.challenge != "" && p.challenge != challengeOf(r.FormValue("code_verifier")):
		o["error"], o["error_description"] = "bad_verification_code", "The code passed is incorrect or expired."
	default:
		o["access_token"], o["token_type"], o["scope"] = s.signedIn(p.userID, a.id), "bearer", ""
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(o) // the client is gone
}

// AppUserToken is the token of a person who signed in with an App. It never expires.
func (s *Sim) AppUserToken(appID int64, login string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.world.account(login)
	if u == nil || s.world.apps[appID] == nil {
		misuse("AppUserToken: no account %q or no App %d", login, appID)
	}
	return s.signedIn(u.id, appID)
}

func (s *Sim) signedIn(userID, appID int64) string {
	text := "ghu_" + hex.EncodeToString(randomBytes(18))
	s.tokens[text] = &token{userID: userID, appID: appID}
	return text
}

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// personInstallations are those of the App that the person signed in with and that cover something the person may see.
func (c *call) personInstallations() []*installation {
	var all []*installation
	for _, id := range sortedKeys(c.w.installs) {
		if i := c.w.installs[id]; i.appID == c.who.token.appID && i.suspendedAt == nil && len(c.personRepos(i)) > 0 {
			all = append(all, i)
		}
	}
	return all
}

func (c *call) personRepos(i *installation) []*repo {
	var all []*repo
	for _, id := range sortedKeys(c.w.repos) {
		if r := c.w.repos[id]; i.has(r) && c.w.userPermission(r, c.who.user.id) != "" {
			all = append(all, r)
		}
	}
	return all
}

func listUserInstallations(c *call) answer {
	if c.who.user == nil || c.who.token.appID == 0 {
		return refused(refuse(403, "You must authenticate with an access token authorized to a GitHub App in order to list installations"))
	}
	all, list, x := c.personInstallations(), []obj{}, c.renderer()
	for _, i := range paginate(c, all) {
		list = append(list, x.installation(i))
	}
	return ok(obj{"total_count": len(all), "installations": list})
}

func listUserInstallationRepos(c *call) answer {
	id, _ := strconv.ParseInt(c.vars["installation_id"], 10, 64)
	i := c.w.installs[id]
	if c.who.user == nil || i == nil || i.appID != c.who.token.appID || i.suspendedAt != nil {
		return refused(errNotFound)
	}
	all, list, x := c.personRepos(i), []obj{}, c.renderer()
	for _, r := range paginate(c, all) {
		o := x.repo(r)
		o["permissions"] = rights(c.w.userPermission(r, c.who.user.id))
		list = append(list, o)
	}
	return ok(obj{"total_count": len(all), "repository_selection": i.selection(), "repositories": list})
}

package ghclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	opMeta     operation = "meta.get"
	opVersions operation = "meta.get_versions"
)

// Server is what a GitHub says of itself.
type Server struct {
	// Enterprise is the version of GitHub Enterprise Server; "" is github.com or a tenant of it.
	Enterprise string
	// APIVersions are the REST API versions that are served; nil where the server has no such list.
	APIVersions []string
	// Date is the server's clock when it answered, and Skew ours less that; half of the round trip is taken off.
	Date time.Time
	Skew time.Duration
}

// firstVersion is the REST API version that every server with versions has: what a server can do is asked in it.
const firstVersion = "2022-11-28"

// oldestHeld and newestHeld are the Enterprise Server releases between which the published descriptions have all our routes.
const oldestHeld, newestHeld = "3.17", "3.19"

// Server asks the server which versions it is and serves. It needs no installation. Errors: as every read's.
func (a *App) Server(ctx context.Context) (Server, error) {
	began := a.now()
	got, err := a.send(ctx, call{op: opMeta, method: http.MethodGet, path: "meta", version: firstVersion})
	if err != nil {
		return Server{}, doing(err, "ask the server for its version")
	}
	ended := a.now()
	root, err := parseObject(got.body)
	if err != nil {
		return Server{}, malformed(opMeta, err)
	}
	s := Server{Enterprise: got.header.Get("X-Github-Enterprise-Version")}
	if s.Enterprise == "" {
		s.Enterprise = root.at("installed_version").optionalText()
	}
	if s.Date, err = http.ParseTime(got.header.Get("Date")); err == nil && got.status != http.StatusNotModified {
		s.Skew = began.Add(ended.Sub(began) / 2).Sub(s.Date.Add(500 * time.Millisecond)) // the header has whole seconds
	}
	got, err = a.send(ctx, call{op: opVersions, method: http.MethodGet, path: "versions", version: firstVersion})
	if errors.Is(err, ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return Server{}, doing(err, "ask the server for its API versions")
	}
	list, err := parseAny(got.body)
	if err != nil {
		return Server{}, malformed(opVersions, err)
	}
	for _, item := range list.list() {
		s.APIVersions = append(s.APIVersions, item.text())
	}
	if list.read.err != nil {
		return Server{}, malformed(opVersions, list.read.err)
	}
	return s, nil
}

// Refuses says why the client cannot work with the server, nil where it can: the REST API version that is configured is not served,
// or the release is too old to have API versions at all.
func (s Server) Refuses(apiVersion string) error {
	switch {
	case s.APIVersions == nil && s.Enterprise == "":
		return nil // no list: the first request tells
	case s.APIVersions == nil:
		return fmt.Errorf("GitHub Enterprise Server %s has no REST API versions: upgrade it to %s or newer", clip(s.Enterprise), oldestHeld)
	case !slices.Contains(s.APIVersions, apiVersion):
		return fmt.Errorf("COUNTERSIGN_GITHUB_API_VERSION is %s, which this server (%s) does not serve: use one of %s",
			apiVersion, s.name(), clip(strings.Join(s.APIVersions, ", ")))
	}
	return nil
}

// Doubts says what is not known of the server, "" where nothing is: releases whose description the client was not held to.
func (s Server) Doubts() string {
	if s.Enterprise == "" {
		return ""
	}
	older, ok := olderThan(s.Enterprise, oldestHeld)
	newer, _ := olderThan(newestHeld, s.Enterprise)
	switch {
	case !ok:
		return fmt.Sprintf("%q is no version of GitHub Enterprise Server that is known here; nothing is known of what it can do", clip(s.Enterprise))
	case older:
		return fmt.Sprintf("GitHub Enterprise Server %s is older than %s, the oldest release the client is held to; what it lacks is noticed by its refusals", s.Enterprise, oldestHeld)
	case newer:
		return fmt.Sprintf("GitHub Enterprise Server %s is newer than %s, the newest release the client is held to", s.Enterprise, newestHeld)
	}
	return ""
}

func (s Server) name() string {
	if s.Enterprise == "" {
		return "github.com"
	}
	return "GitHub Enterprise Server " + clip(s.Enterprise)
}

// olderThan compares feature releases, 3.17.2 with 3.17 being equal; ok is false where one is no version.
func olderThan(a, b string) (older, ok bool) {
	x, okX := release(a)
	y, okY := release(b)
	return slices.Compare(x, y) < 0, okX && okY
}

func release(text string) ([]int, bool) {
	parts := strings.Split(text, ".")
	if len(parts) < 2 {
		return nil, false
	}
	var out []int
	for _, p := range parts[:2] {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}

// TokenLength is how many characters the installation's token has; the token itself stays here.
func (c *Client) TokenLength(ctx context.Context) (int, error) {
	text, err := c.app.tokens.get(ctx, c.installation, c.perms)
	if err != nil {
		return 0, doing(err, "get a token of installation %d", c.installation)
	}
	return len(text), nil
}

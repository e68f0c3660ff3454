package ghclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

const (
	opDeliveries operation = "apps.list_deliveries"
	opRedeliver  operation = "apps.redeliver"
)

// Delivery is one attempt of GitHub's to deliver a webhook, from its own log. GUID is X-GitHub-Delivery, which a redelivery shares; ID is
// the attempt's own. GitHub keeps them for days, not for ever: 3 on github.com, 7 on a server of one's own.
type Delivery struct {
	ID             int64
	GUID           string
	DeliveredAt    time.Time
	Redelivery     bool
	Status         string // free text; only "OK" is a success
	StatusCode     int    // 0 where no answer came
	Event          string
	Action         string
	InstallationID int64
	RepositoryID   int64
}

// Succeeded: GitHub got a 2xx. Its own filter by status misses attempts that got no answer at all, so the log is read unfiltered.
func (d Delivery) Succeeded() bool { return d.StatusCode >= 200 && d.StatusCode < 300 }

// Mapped reports that an event of that name and action may create work (spec sections C and D), as far as GitHub's log can tell.
func (d Delivery) Mapped() bool {
	if _, known := decoders[d.Event]; !known {
		return false
	}
	actions, limited := mappedActions[d.Event]
	return !limited || slices.Contains(actions, d.Action)
}

// Retained reports that an acknowledged delivery of that kind is, but for rare cases, stored. Most comments, runs and changes of
// a repository are acknowledged and ask for nothing, which only their payload tells.
func (d Delivery) Retained() bool {
	switch d.Event {
	case "issue_comment", "check_run", "repository", "merge_group":
		return false
	}
	return d.Mapped()
}

// Deliveries is one page of the App's delivery log, newest first. cursor is "" for the newest page, then what next was; next "" means that
// the log has ended. Pages are found by cursor, so a delivery that arrives meanwhile shifts nothing.
func (a *App) Deliveries(ctx context.Context, cursor string) (page []Delivery, next string, err error) {
	query := url.Values{"per_page": {strconv.Itoa(perPage)}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	c := call{op: opDeliveries, method: http.MethodGet, path: "app/hook/deliveries", query: query}
	got, err := a.send(ctx, c)
	if err != nil {
		return nil, "", doing(err, "list the webhook deliveries of App %d", a.cfg.AppID)
	}
	root, err := parseAny(got.body)
	if err != nil {
		return nil, "", malformed(opDeliveries, err)
	}
	for _, item := range root.list() {
		page = append(page, readDelivery(item.object()))
	}
	if root.read.err != nil {
		return nil, "", malformed(opDeliveries, root.read.err)
	}
	next, err = a.nextCursor(c, got, cursor)
	if err != nil {
		return nil, "", malformed(opDeliveries, err)
	}
	return page, next, nil
}

func readDelivery(item node) Delivery {
	return Delivery{
		ID: item.at("id").id(), GUID: item.at("guid").text(), DeliveredAt: item.at("delivered_at").requiredInstant(),
		Redelivery: item.at("redelivery").flag(), Status: item.at("status").optionalText(), StatusCode: item.at("status_code").count(),
		Event: item.at("event").text(), Action: item.at("action").optionalText(),
		InstallationID: item.at("installation_id").optionalID(), RepositoryID: item.at("repository_id").optionalID(),
	}
}

// nextCursor takes the cursor from a next link that leads to the same list; it must be another one than ours.
func (a *App) nextCursor(c call, got answer, cursor string) (string, error) {
	header := got.header.Get("Link")
	if header == "" {
		return "", nil
	}
	links, err := parseLinks(header)
	if err != nil || links["next"] == "" {
		return "", err
	}
	next, err := url.Parse(links["next"])
	asked, _ := url.Parse(a.rest.String() + c.path)
	if err != nil || next.Scheme != asked.Scheme || next.Host != asked.Host || next.EscapedPath() != asked.EscapedPath() {
		return "", errors.New("the next link leads to another list")
	}
	found := next.Query()["cursor"]
	if len(found) != 1 || found[0] == "" || found[0] == cursor {
		return "", errors.New("the next link has no new cursor")
	}
	return found[0], nil
}

// Redeliver asks GitHub to deliver again. It may run twice: the receiver knows a delivery by its GUID. Errors: ErrNotFound for an
// attempt GitHub no longer has.
func (a *App) Redeliver(ctx context.Context, id int64) error {
	path := fmt.Sprintf("app/hook/deliveries/%d/attempts", id)
	_, err := a.send(ctx, call{op: opRedeliver, method: http.MethodPost, path: path, write: true, noContent: true}) // 202 with {} or nothing
	return doing(err, "redeliver webhook delivery %d", id)
}

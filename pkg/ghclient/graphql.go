package ghclient

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// query makes one GraphQL request and returns its data. GraphQL answers HTTP 200 also when it refuses; what its errors say is judged
// here. An error below one of the aliases in tolerated, saying that the thing does not exist, is left for the caller to see as a null.
// Everything else GraphQL complains of is an error, even if there is data beside it: partial data is not evidence (I6).
func (c *Client) query(ctx context.Context, op operation, document string, variables map[string]any, tolerated ...string) (node, error) {
	body, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		return node{}, &apiError{sentinel: ErrInvalid, op: op, cause: err}
	}
	request := call{op: op, method: http.MethodPost, target: c.app.query, body: body, accept: "application/json", resource: graphql,
		installation: c.installation, perms: c.perms, tolerated: tolerated}
	got, err := c.app.send(ctx, request)
	if err != nil {
		return node{}, err
	}
	root, err := parseObject(got.body)
	if err != nil {
		return node{}, malformed(op, err)
	}
	data := root.at("data").object()
	if root.read.err != nil {
		return node{}, malformed(op, root.read.err)
	}
	data.path = ""
	return data, nil
}

// graphqlErrors judges the errors inside an HTTP 200.
func graphqlErrors(c call, a answer, now time.Time) error {
	root, err := parseObject(a.body)
	if err != nil {
		return malformed(c.op, err)
	}
	list, _ := root.at("errors").elements()
	for _, item := range list {
		if err := graphqlError(c, a, item.lenient(), now); err != nil {
			return err
		}
	}
	return nil
}

func graphqlError(c call, a answer, item node, now time.Time) error {
	kind, message := item.at("type").optionalText(), item.at("message").optionalText()
	code := item.at("extensions").at("code").optionalText()
	fail := func(sentinel error) error {
		return &apiError{sentinel: sentinel, op: c.op, status: a.status, text: clip(strings.TrimSpace(kind + code + " " + message))}
	}
	lower := strings.ToLower(message)
	switch {
	case kind == "RATE_LIMITED" || kind == "RATE_LIMIT" || limitText(message):
		return graphqlLimit(c, a, lower, now)
	case kind == "NOT_FOUND":
		if path, _ := item.at("path").elements(); tolerates(c.tolerated, path) {
			return nil
		}
		return fail(ErrNotFound)
	case kind == "FORBIDDEN", kind == "INSUFFICIENT_SCOPES", strings.Contains(lower, "resource not accessible by integration"):
		return fail(ErrForbidden)
	case kind == "MAX_NODE_LIMIT_EXCEEDED", kind == "RESOURCE_LIMITS_EXCEEDED":
		return fail(ErrTooLarge)
	case code != "", kind == "UNPROCESSABLE", strings.Contains(lower, "parse error"):
		return fail(ErrInvalid) // the document or its variables: an older server, or our mistake
	case strings.Contains(lower, "something went wrong"), strings.Contains(lower, "timeout"), strings.Contains(lower, "timed out"):
		return fail(ErrUnavailable)
	}
	return fail(ErrMalformed)
}

func graphqlLimit(c call, a answer, message string, now time.Time) error {
	kind := "primary"
	if strings.Contains(message, "secondary") || strings.Contains(message, "abuse") ||
		a.header.Get("Retry-After") != "" && a.header.Get("X-Ratelimit-Remaining") != "0" {
		kind = "secondary"
	}
	return &RateLimitError{After: retryDelay(a.header, now), Kind: kind, Installation: c.installation}
}

// tolerates: a missing thing at exactly one of the aliases, or below it where GraphQL named a list element.
func tolerates(aliases []string, path []node) bool {
	var parts []string
	for _, part := range path {
		if text, ok := part.value.str(); ok {
			parts = append(parts, text)
		}
	}
	joined := strings.Join(parts, ".")
	for _, alias := range aliases {
		if joined == alias {
			return true
		}
	}
	return false
}

// bigID is a 64-bit id, which GraphQL writes as a string or as a number.
func (n node) bigID() int64 {
	if text, ok := n.value.str(); ok {
		if v, err := strconv.ParseInt(text, 10, 64); err == nil && v > 0 {
			return v
		}
	}
	return n.id()
}

// who is an account as GraphQL has it. A bot's login lacks the suffix by which REST, and the policy, know it.
func (n node) who() Actor {
	if n.missing() {
		return Actor{}
	}
	actor := Actor{Login: n.object().at("login").text(), Type: n.at("__typename").text(), ID: n.at("databaseId").optionalID()}
	if actor.Type == "Bot" && !strings.HasSuffix(actor.Login, "[bot]") {
		actor.Login += "[bot]"
	}
	return actor
}

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

//go:embed patches.json
var patchesText []byte

// patch is a place where the description is wrong and reality is right.
type patch struct {
	Reason     string   `json:"reason"`
	Operations []object `json:"operations"`
}

func patches() ([]patch, error) {
	var list []patch
	if err := json.Unmarshal(patchesText, &list); err != nil {
		return nil, fmt.Errorf("patches.json: %w", err)
	}
	for i, p := range list {
		if p.Reason == "" || len(p.Operations) == 0 {
			return nil, fmt.Errorf("patches.json: patch %d has no reason or no operations", i)
		}
	}
	return list, nil
}

// description is GitHub's REST description of one API version, ready to check.
type description struct {
	doc   *openapi3.T
	paths []string // shapes are compared segment by segment, the most literal first
}

// load reads the published description, turns it into the wanted API version
// ("" is its own), patches and trims it.
func load(ctx context.Context, raw []byte, version string, wanted map[string]bool) (*description, error) {
	var full object
	if err := json.Unmarshal(raw, &full); err != nil {
		return nil, fmt.Errorf("the description: %w", err)
	}
	if version != "" {
		if err := forVersion(full, version); err != nil {
			return nil, fmt.Errorf("version %s: %w", version, err)
		}
		requireOnlyKnown(full)
	}
	list, err := patches()
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		for _, op := range p.Operations {
			if err := apply(full, op); err != nil {
				return nil, fmt.Errorf("patches.json: %w", err)
			}
		}
	}
	small, err := json.Marshal(trim(full, wanted))
	if err != nil {
		return nil, fmt.Errorf("trim: %w", err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(small)
	if err != nil {
		return nil, fmt.Errorf("load the trimmed description: %w", err)
	}
	if err := doc.Validate(ctx, openapi3.DisableExamplesValidation()); err != nil {
		return nil, fmt.Errorf("the trimmed description: %w", err)
	}
	d := &description{doc: doc}
	for path := range doc.Paths.Map() {
		d.paths = append(d.paths, path)
	}
	slices.SortFunc(d.paths, func(a, b string) int { return strings.Count(a, "{") - strings.Count(b, "{") })
	return d, nil
}

// find is the operation of a request, and its path parameters. Aliases by id and the
// prefix of Enterprise Server lead to the same operation.
func (d *description) find(method, escapedPath string) (*routers.Route, map[string]string) {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(escapedPath, "/api/v3"), "/"), "/")
	switch {
	case len(parts) >= 2 && parts[0] == "repositories":
		parts = append([]string{"repos", "owner", "repo"}, parts[2:]...)
	case len(parts) >= 4 && parts[0] == "organizations" && parts[2] == "team":
		parts = append([]string{"orgs", "org", "teams", "slug"}, parts[4:]...)
	}
	for _, path := range d.paths {
		item := d.doc.Paths.Value(path)
		operation := item.GetOperation(method)
		if operation == nil {
			continue
		}
		if values, ok := fit(path, parts); ok {
			return &routers.Route{Spec: d.doc, Path: path, PathItem: item, Method: method, Operation: operation}, values
		}
	}
	return nil, nil
}

// fit matches a path; the last parameter of /contents and /git/refs spans the rest.
func fit(path string, parts []string) (map[string]string, bool) {
	pattern := strings.Split(strings.Trim(path, "/"), "/")
	spans := strings.HasSuffix(path, "/contents/{path}") || strings.HasSuffix(path, "/{ref}") && strings.Contains(path, "/git/ref")
	if spans && len(parts) > len(pattern) {
		parts = append(slices.Clone(parts[:len(pattern)-1]), strings.Join(parts[len(pattern)-1:], "/"))
	}
	if len(pattern) != len(parts) {
		return nil, false
	}
	values := map[string]string{}
	for i, p := range pattern {
		if name, is := strings.CutPrefix(p, "{"); is {
			values[strings.TrimSuffix(name, "}")] = parts[i]
			continue
		}
		if p != parts[i] {
			return nil, false
		}
	}
	return values, true
}

// exchange is one request and its answer.
type exchange struct {
	request *http.Request // its body was read
	sent    []byte
	status  int
	header  http.Header
	body    []byte
}

func (x exchange) name() string {
	return fmt.Sprintf("%s %s → %d", x.request.Method, x.request.URL.RequestURI(), x.status)
}

// check holds a request and its answer against the description.
func (d *description) check(ctx context.Context, x exchange) error {
	route, values := d.find(x.request.Method, x.request.URL.EscapedPath())
	if route == nil {
		return fmt.Errorf("%s: the description has no such operation", x.name())
	}
	if x.status < 400 { // what a server refused is allowed to be wrong
		if err := d.checkRequest(ctx, x, route, values); err != nil {
			return fmt.Errorf("%s: request: %w", x.name(), err)
		}
	}
	if err := d.checkAnswer(ctx, x, route, values, x.body); err != nil {
		return fmt.Errorf("%s: answer: %w", x.name(), err)
	}
	return nil
}

func (d *description) input(x exchange, route *routers.Route, values map[string]string) *openapi3filter.RequestValidationInput {
	r := x.request.Clone(context.Background())
	r.Body = io.NopCloser(bytes.NewReader(x.sent))
	if len(x.sent) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	return &openapi3filter.RequestValidationInput{
		Request: r, PathParams: values, Route: route,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc},
	}
}

func (d *description) checkRequest(ctx context.Context, x exchange, route *routers.Route, values map[string]string) error {
	in := d.input(x, route, values)
	if err := openapi3filter.ValidateRequest(ctx, in); err != nil {
		return err
	}
	for name := range x.request.URL.Query() {
		if route.Operation.Parameters.GetByInAndName("query", name) == nil {
			return fmt.Errorf("the operation has no query parameter %q", name)
		}
	}
	return nil
}

func (d *description) checkAnswer(ctx context.Context, x exchange, route *routers.Route, values map[string]string, body []byte) error {
	media := x.header.Get("Content-Type")
	if x.status >= 500 || len(body) > 0 && !strings.HasPrefix(media, "application/json") {
		if x.status < 500 && !strings.Contains(media, "application/vnd.github") {
			return fmt.Errorf("content type %q", media)
		}
		return nil // raw and diff media, and the HTML of a gateway, have no schema
	}
	return openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: d.input(x, route, values), Status: x.status, Header: x.header,
		Body:    io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	})
}

// checkHook holds a webhook's payload against x-webhooks.
func (d *description) checkHook(event, action string, body []byte) error {
	name := strings.ReplaceAll(event, "_", "-")
	if action != "" {
		name += "-" + strings.ReplaceAll(action, "_", "-")
	}
	schema := d.doc.Components.Schemas[hookSchema(name)]
	if schema == nil {
		return fmt.Errorf("webhook %s: the description has none of that name", name)
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("webhook %s: %w", name, err)
	}
	if err := schema.Value.VisitJSON(v, openapi3.MultiErrors()); err != nil {
		return fmt.Errorf("webhook %s: %w", name, err)
	}
	return nil
}

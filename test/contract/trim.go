package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

type object = map[string]any

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// shape is a path with its parameters' names taken out, so that two spellings of one
// route are equal.
func shape(path string) string { return parameter.ReplaceAllString(path, "{}") }

// trim keeps of a description the operations wanted ("GET shape"), every webhook,
// and every component that they refer to. Examples, prose and extensions go.
func trim(description object, wanted map[string]bool) object {
	components := dig(description, "components")
	kept := object{}
	paths := object{}
	for path, item := range asObject(description["paths"]) {
		keep := object{}
		for method, operation := range asObject(item) {
			if wanted[strings.ToUpper(method)+" "+shape(path)] {
				keep[method] = prune(operation)
			}
		}
		if len(keep) > 0 {
			paths[path] = keep
			pull(keep, components, kept)
		}
	}
	for name, hook := range asObject(description["x-webhooks"]) {
		schema := prune(dig(asObject(hook), "post", "requestBody", "content", "application/json")["schema"])
		if schema == nil {
			continue
		}
		put(kept, "schemas", hookSchema(name), schema)
		pull(schema, components, kept)
	}
	return object{"openapi": description["openapi"], "info": object{"title": "trimmed", "version": "1"}, "paths": paths, "components": kept}
}

// hookSchema is the component under which the payload of a webhook is kept.
func hookSchema(name string) string { return "payload-of-" + strings.ReplaceAll(name, ".", "-") }

// pull copies every component that v refers to, and what those refer to.
func pull(v any, from, to object) {
	switch v := v.(type) {
	case object:
		if ref, is := v["$ref"].(string); is {
			kind, name, _ := strings.Cut(strings.TrimPrefix(ref, "#/components/"), "/")
			if _, done := dig(to, kind)[name]; done {
				return
			}
			component := prune(dig(from, kind)[name])
			put(to, kind, name, component)
			pull(component, from, to)
			return
		}
		for _, one := range v {
			pull(one, from, to)
		}
	case []any:
		for _, one := range v {
			pull(one, from, to)
		}
	}
}

// prune drops what does not constrain anything. The name of a property is kept
// whatever it is.
func prune(v any) any { return pruned(v, false) }

func pruned(v any, names bool) any {
	switch v := v.(type) {
	case object:
		o := object{}
		for key, one := range v {
			prose := key == "description" || key == "summary" || key == "title" || key == "example" || key == "examples" || key == "externalDocs"
			if !names && (prose || strings.HasPrefix(key, "x-")) {
				if _, text := one.(string); key == "description" && text {
					o[key] = "" // required of a response
				}
				continue
			}
			o[key] = pruned(one, !names && (key == "properties" || key == "schemas"))
		}
		return o
	case []any:
		list := make([]any, len(v))
		for i, one := range v {
			list[i] = pruned(one, false)
		}
		return list
	}
	return v
}

func asObject(v any) object { o, _ := v.(object); return o }

func dig(o object, keys ...string) object {
	for _, k := range keys {
		o = asObject(o[k])
	}
	return o
}

func put(o object, kind, name string, v any) {
	if asObject(o[kind]) == nil {
		o[kind] = object{}
	}
	asObject(o[kind])[name] = v
}

// forVersion applies GitHub's own record of what a later API version changes:
// merge patches and lists of operations, beside what they change.
func forVersion(v any, version string) error {
	switch v := v.(type) {
	case object:
		changes, _ := v["x-github-breaking-changes"].([]any)
		for _, one := range changes {
			change := asObject(one)
			if change["version"] != version {
				continue
			}
			switch p := change["patch"].(type) {
			case object:
				mergePatch(v, p)
			case []any:
				for _, op := range p {
					if err := apply(v, asObject(op)); err != nil && !strings.Contains(err.Error(), "nothing at") {
						return err
					}
				}
			}
		}
		for _, one := range v {
			if err := forVersion(one, version); err != nil {
				return err
			}
		}
	case []any:
		for _, one := range v {
			if err := forVersion(one, version); err != nil {
				return err
			}
		}
	}
	return nil
}

// mergePatch is RFC 7396. A schema whose property is taken away must not require it.
func mergePatch(target, patch object) {
	for k, v := range patch {
		if v == nil {
			delete(target, k)
			continue
		}
		if inner, is := v.(object); is && asObject(target[k]) != nil {
			mergePatch(asObject(target[k]), inner)
			continue
		}
		target[k] = v
	}
}

// apply is one operation of RFC 6902: add, replace or remove. A path may hold * for
// every key; then add changes nothing that is there.
func apply(root any, op object) error {
	path, _ := op["path"].(string)
	value := op["value"]
	if path == "" {
		return fmt.Errorf("operation without a path: %v", op)
	}
	return applyAt(root, strings.Split(path, "/")[1:], op["op"].(string), value, path) //nolint:forcetypeassert // checked data
}

func applyAt(at any, keys []string, op string, value any, path string) error {
	key := strings.NewReplacer("~1", "/", "~0", "~").Replace(keys[0])
	if list, is := at.([]any); is {
		i, numbered := index(key, len(list))
		if !numbered || len(keys) == 1 {
			return nil // a position in a list of required names; see requireOnlyKnown
		}
		return applyAt(list[i], keys[1:], op, value, path)
	}
	o := asObject(at)
	if o == nil {
		return fmt.Errorf("patch %s: nothing at %q", path, key)
	}
	if key == "*" {
		for k := range o {
			if err := applyAt(o, append([]string{strings.NewReplacer("~", "~0", "/", "~1").Replace(k)}, keys[1:]...), op, value, path); err != nil {
				return err
			}
		}
		return nil
	}
	if len(keys) > 1 {
		return applyAt(o[key], keys[1:], op, value, path)
	}
	_, there := o[key]
	switch {
	case op == "remove":
		delete(o, key)
	case op == "replace" && !there:
		return fmt.Errorf("patch %s: nothing at %q to replace", path, key)
	case op == "replace" || !there:
		o[key] = clone(value)
	}
	return nil
}

// index reads a position of a list.
func index(key string, length int) (int, bool) {
	i, err := strconv.Atoi(key)
	return i, err == nil && i >= 0 && i < length
}

func clone(v any) any {
	var c any
	raw, err := json.Marshal(v)
	must(err) // only decoded JSON is cloned
	must(json.Unmarshal(raw, &c))
	return c
}

// requireOnlyKnown drops names from required lists that no longer are properties.
func requireOnlyKnown(v any) {
	switch v := v.(type) {
	case object:
		properties, has := v["properties"].(object)
		if required, is := v["required"].([]any); is && has {
			var keep []any
			for _, name := range required {
				if _, known := properties[fmt.Sprint(name)]; known {
					keep = append(keep, name)
				}
			}
			if len(keep) == 0 {
				delete(v, "required")
			} else {
				v["required"] = keep
			}
		}
		for _, one := range v {
			requireOnlyKnown(one)
		}
	case []any:
		for _, one := range v {
			requireOnlyKnown(one)
		}
	}
}

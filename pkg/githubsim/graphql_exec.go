package githubsim

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/validator"
)

// node is one object of a GraphQL answer. A field's value is a scalar, a node, a
// list of nodes, nil, or a function of the arguments that gives one of them.
type node struct {
	typ    string
	fields map[string]any
	edge   map[string]any // what the edge of a connection adds to it
}

type args = map[string]any

// gqlFailure is what a field's function returns instead of a value.
type gqlFailure struct{ kind, message string }

// execution is one query being answered.
type execution struct {
	c         *call
	x         *renderer
	variables map[string]any
	errors    []obj
	granted   map[string]string
}

// graphqlQuery answers POST /graphql: always 200, with what went wrong in errors.
func graphqlQuery(c *call) answer {
	var ask struct {
		Query         string         `json:"query"`
		Variables     map[string]any `json:"variables"`
		OperationName string         `json:"operationName"`
	}
	if json.Unmarshal(c.body, &ask) != nil {
		return refused(errParse)
	}
	doc, errs := gqlparser.LoadQueryWithRules(c.s.gql.Schema, ask.Query, nil)
	if len(errs) > 0 {
		return ok(obj{"errors": queryErrors(errs)})
	}
	op := doc.Operations.ForName(ask.OperationName)
	if op == nil || op.Operation != ast.Query {
		return ok(obj{"errors": []obj{{"message": "the stand-in answers queries only"}}})
	}
	variables, err := validator.VariableValues(c.s.gql.Schema, op, ask.Variables)
	if err != nil {
		return ok(obj{"errors": []obj{{"message": err.Error()}}})
	}
	e := &execution{c: c, x: c.renderer(), variables: variables}
	if c.who.user == nil {
		e.granted = c.s.effective(c.who.token)
	}
	data, alive := e.object(c.s.gql.Query, e.root(), op.SelectionSet, nil)
	o := obj{"data": data}
	if !alive {
		o["data"] = nil
	}
	if len(e.errors) > 0 {
		o["errors"] = e.errors
	}
	return ok(o)
}

var (
	unknownField    = regexp.MustCompile(`^Cannot query field "(\w+)" on type "(\w+)"`)
	unknownArgument = regexp.MustCompile(`^Unknown argument "(\w+)" on field "(\w+)\.(\w+)"`)
)

// queryErrors words what is wrong with a document as GitHub does where GitHub's
// words are known.
func queryErrors(list gqlerror.List) []obj {
	var errors []obj
	for _, e := range list {
		o := obj{"message": e.Message, "path": []string{"query"}}
		if m := unknownField.FindStringSubmatch(e.Message); m != nil {
			o["message"] = fmt.Sprintf("Field '%s' doesn't exist on type '%s'", m[1], m[2])
			o["extensions"] = obj{"code": "undefinedField", "typeName": m[2], "fieldName": m[1]}
		} else if m := unknownArgument.FindStringSubmatch(e.Message); m != nil {
			o["message"] = fmt.Sprintf("Field '%s' doesn't accept argument '%s'", m[3], m[1])
			o["extensions"] = obj{"code": "argumentNotAccepted", "name": m[3], "typeName": "Field", "argumentName": m[1]}
		} else if e.Rule != "" {
			o["extensions"] = obj{"code": e.Rule}
		}
		if len(e.Locations) > 0 {
			o["locations"] = e.Locations
		}
		errors = append(errors, o)
	}
	return errors
}

// object answers a selection of a node; alive is false when a null came up in a
// field that cannot be null, so that the node itself becomes null.
func (e *execution) object(def *ast.Definition, n *node, set ast.SelectionSet, path []any) (o obj, alive bool) {
	o, alive = obj{}, true
	for _, f := range e.collect(n.typ, set) {
		at := append(slices.Clone(path), f.Alias)
		if f.Name == "__typename" {
			o[f.Alias] = n.typ
			continue
		}
		value, ok := e.field(def, n, f, at)
		if !ok {
			alive = false
		}
		o[f.Alias] = value
	}
	return o, alive
}

// collect flattens fragments and merges fields of one name.
func (e *execution) collect(typ string, set ast.SelectionSet) []*ast.Field {
	var list []*ast.Field
	add := func(f *ast.Field) {
		for i, old := range list {
			if old.Alias == f.Alias {
				merged := *old
				merged.SelectionSet = slices.Concat(old.SelectionSet, f.SelectionSet)
				list[i] = &merged
				return
			}
		}
		list = append(list, f)
	}
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			if e.included(s.Directives) {
				add(s)
			}
		case *ast.InlineFragment:
			if e.included(s.Directives) && e.matches(typ, s.TypeCondition) {
				for _, f := range e.collect(typ, s.SelectionSet) {
					add(f)
				}
			}
		case *ast.FragmentSpread:
			if e.included(s.Directives) && e.matches(typ, s.Definition.TypeCondition) {
				for _, f := range e.collect(typ, s.Definition.SelectionSet) {
					add(f)
				}
			}
		}
	}
	return list
}

func (e *execution) included(directives ast.DirectiveList) bool {
	for _, d := range directives {
		on, _ := d.ArgumentMap(e.variables)["if"].(bool)
		if d.Name == "skip" && on || d.Name == "include" && !on {
			return false
		}
	}
	return true
}

func (e *execution) matches(typ, condition string) bool {
	if condition == "" || condition == typ {
		return true
	}
	def := e.c.s.gql.Types[condition]
	return def != nil && slices.ContainsFunc(e.c.s.gql.PossibleTypes[condition], func(d *ast.Definition) bool { return d.Name == typ })
}

func (e *execution) field(_ *ast.Definition, n *node, f *ast.Field, path []any) (any, bool) {
	value, known := n.fields[f.Name]
	if !known {
		e.fail(f, path, gqlFailure{"UNSUPPORTED", fmt.Sprintf("the stand-in does not answer %s.%s", n.typ, f.Name)})
		return nil, !f.Definition.Type.NonNull
	}
	if fn, is := value.(func(args) any); is {
		value = fn(f.ArgumentMap(e.variables))
	}
	if failure, is := value.(gqlFailure); is {
		e.fail(f, path, failure)
		return nil, !f.Definition.Type.NonNull
	}
	return e.complete(f, f.Definition.Type, value, path)
}

func (e *execution) fail(f *ast.Field, path []any, failure gqlFailure) {
	e.errors = append(e.errors, obj{
		"type": failure.kind, "path": path, "message": failure.message, "locations": []obj{{"line": f.Position.Line, "column": f.Position.Column}},
	})
}

// complete turns a value into JSON by its type; a null where none may be kills
// what holds it.
func (e *execution) complete(f *ast.Field, t *ast.Type, value any, path []any) (any, bool) {
	if isNil(value) {
		return nil, !t.NonNull
	}
	switch v := value.(type) {
	case *node:
		o, alive := e.object(e.c.s.gql.Types[v.typ], v, f.SelectionSet, path)
		if !alive {
			return nil, !t.NonNull
		}
		return o, true
	case []*node:
		list, alive := []any{}, true
		for i, one := range v {
			item, ok := e.complete(f, t.Elem, one, append(slices.Clone(path), i))
			alive = alive && ok
			list = append(list, item)
		}
		if !alive {
			return nil, !t.NonNull
		}
		return list, true
	}
	return value, true
}

func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

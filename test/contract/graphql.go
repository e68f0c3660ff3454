package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
)

// published loads GitHub's schema. As published it defines some fields of one type
// twice, which gqlparser refuses; the second definitions are dropped.
func published(raw []byte) (*ast.Schema, error) {
	doc, err := parser.ParseSchemas(validator.Prelude, &ast.Source{Name: "schema.graphql", Input: string(raw)})
	if err != nil {
		return nil, fmt.Errorf("parse the published schema: %w", err)
	}
	for _, def := range doc.Definitions {
		seen := map[string]bool{}
		def.Fields = slices.DeleteFunc(def.Fields, func(f *ast.FieldDefinition) bool {
			second := seen[f.Name]
			seen[f.Name] = true
			return second
		})
	}
	s, err := validator.ValidateSchemaDocument(doc)
	if err != nil {
		return nil, fmt.Errorf("load the published schema: %w", err)
	}
	return s, nil
}

// subset reports where the stand-in's schema says something that GitHub's does not.
func subset(mine, theirs *ast.Schema) []string {
	var wrong []string
	say := func(format string, a ...any) { wrong = append(wrong, fmt.Sprintf(format, a...)) }
	for name, def := range mine.Types {
		if def.BuiltIn || strings.HasPrefix(name, "__") {
			continue
		}
		other := theirs.Types[name]
		if other == nil || other.Kind != def.Kind {
			say("type %s: GitHub has no such %s", name, def.Kind)
			continue
		}
		for _, i := range def.Interfaces {
			if !slices.Contains(other.Interfaces, i) {
				say("type %s: does not implement %s", name, i)
			}
		}
		for _, t := range def.Types {
			if !slices.Contains(other.Types, t) {
				say("union %s: has no %s", name, t)
			}
		}
		for _, v := range def.EnumValues {
			if other.EnumValues.ForName(v.Name) == nil {
				say("enum %s: has no %s", name, v.Name)
			}
		}
		for _, f := range def.Fields {
			if strings.HasPrefix(f.Name, "__") {
				continue
			}
			wrong = append(wrong, sameField(name, f, other.Fields.ForName(f.Name))...)
		}
	}
	slices.Sort(wrong)
	return wrong
}

func sameField(typ string, f, other *ast.FieldDefinition) []string {
	if other == nil {
		return []string{fmt.Sprintf("%s.%s: GitHub has no such field", typ, f.Name)}
	}
	var wrong []string
	if f.Type.String() != other.Type.String() {
		wrong = append(wrong, fmt.Sprintf("%s.%s: is %s, GitHub says %s", typ, f.Name, f.Type, other.Type))
	}
	for _, a := range f.Arguments {
		if o := other.Arguments.ForName(a.Name); o == nil || o.Type.String() != a.Type.String() {
			wrong = append(wrong, fmt.Sprintf("%s.%s(%s: %s): GitHub says otherwise", typ, f.Name, a.Name, a.Type))
		}
	}
	for _, a := range other.Arguments {
		if a.Type.NonNull && a.DefaultValue == nil && f.Arguments.ForName(a.Name) == nil {
			wrong = append(wrong, fmt.Sprintf("%s.%s: GitHub wants the argument %s", typ, f.Name, a.Name))
		}
	}
	return wrong
}

// checkGraphQL holds a document, its variables and its answer against a schema.
func checkGraphQL(s *ast.Schema, sent, body []byte) error {
	var ask struct {
		Query     string         `json:"query"`
		Variables map[string]any `json:"variables"`
	}
	if err := json.Unmarshal(sent, &ask); err != nil {
		return fmt.Errorf("graphql request: %w", err)
	}
	doc, errs := gqlparser.LoadQueryWithRules(s, ask.Query, nil)
	if len(errs) > 0 {
		return fmt.Errorf("graphql document: %w", errs)
	}
	op := doc.Operations[0]
	if _, err := validator.VariableValues(s, op, ask.Variables); err != nil {
		return fmt.Errorf("graphql variables: %w", err)
	}
	return checkData(s, op, body)
}

// checkData holds an answer's data against the selection that asked for it.
func checkData(s *ast.Schema, op *ast.OperationDefinition, body []byte) error {
	var answer struct {
		Data   any      `json:"data"`
		Errors []object `json:"errors"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("graphql answer: %w", err)
	}
	for _, e := range answer.Errors {
		if _, is := e["message"].(string); !is {
			return fmt.Errorf("graphql answer: an error without a message: %v", e)
		}
	}
	if answer.Data == nil {
		if len(answer.Errors) == 0 {
			return fmt.Errorf("graphql answer: neither data nor errors")
		}
		return nil
	}
	return checkSelection(s, s.Query, op.SelectionSet, answer.Data, "data")
}

func checkSelection(s *ast.Schema, def *ast.Definition, set ast.SelectionSet, v any, at string) error {
	o, is := v.(object)
	if !is {
		return fmt.Errorf("graphql answer: %s is no object", at)
	}
	if name, given := o["__typename"].(string); given {
		def = s.Types[name]
	}
	for _, sel := range set {
		switch sel := sel.(type) {
		case *ast.Field:
			value, present := o[sel.Alias]
			if !present {
				return fmt.Errorf("graphql answer: %s.%s is missing", at, sel.Alias)
			}
			if sel.Name == "__typename" {
				continue
			}
			if err := checkValue(s, sel, sel.Definition.Type, value, at+"."+sel.Alias); err != nil {
				return err
			}
		case *ast.InlineFragment:
			if !applies(s, def, sel.TypeCondition, o, sel.SelectionSet) {
				continue
			}
			if err := checkSelection(s, def, sel.SelectionSet, v, at); err != nil {
				return err
			}
		case *ast.FragmentSpread:
			if !applies(s, def, sel.Definition.TypeCondition, o, sel.Definition.SelectionSet) {
				continue
			}
			if err := checkSelection(s, def, sel.Definition.SelectionSet, v, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// applies: an object of unknown type is taken to match a fragment when it holds one
// of the fragment's fields.
func applies(s *ast.Schema, def *ast.Definition, condition string, o object, set ast.SelectionSet) bool {
	if condition == "" || def.Name == condition {
		return true
	}
	if def.Kind == ast.Object {
		return slices.ContainsFunc(s.PossibleTypes[condition], func(d *ast.Definition) bool { return d.Name == def.Name })
	}
	for _, sel := range set {
		if f, is := sel.(*ast.Field); is {
			if _, held := o[f.Alias]; held {
				return true
			}
		}
	}
	return false
}

func checkValue(s *ast.Schema, f *ast.Field, t *ast.Type, v any, at string) error {
	if v == nil {
		if t.NonNull {
			return fmt.Errorf("graphql answer: %s is null, the schema says %s", at, t)
		}
		return nil
	}
	if t.Elem != nil {
		list, is := v.([]any)
		if !is {
			return fmt.Errorf("graphql answer: %s is no list", at)
		}
		for i, one := range list {
			if err := checkValue(s, f, t.Elem, one, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		return nil
	}
	def := s.Types[t.NamedType]
	if def.Kind == ast.Scalar || def.Kind == ast.Enum {
		return checkScalar(def, v, at)
	}
	return checkSelection(s, def, f.SelectionSet, v, at)
}

func checkScalar(def *ast.Definition, v any, at string) error {
	var good bool
	switch def.Name {
	case "Int", "Float":
		_, good = v.(float64)
	case "Boolean":
		_, good = v.(bool)
	default:
		var text string
		text, good = v.(string)
		if good && def.Kind == ast.Enum {
			good = def.EnumValues.ForName(text) != nil
		}
	}
	if !good {
		return fmt.Errorf("graphql answer: %s is %v, the schema says %s", at, v, def.Name)
	}
	return nil
}

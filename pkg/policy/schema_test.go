package policy_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/countersign/countersign/pkg/policy"
)

var update = flag.Bool("update", false, "rewrite the published schemas and golden files")

// enums are the closed sets of the string types.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[policy.FactState]():  {"", "unknown", "absent", "present"},
	reflect.TypeFor[policy.Membership](): {"unknown", "none", "pending", "active"},
	reflect.TypeFor[policy.Look]():       {"", "failure", "action_required", "pending"},
	reflect.TypeFor[policy.Conclusion](): {"blocked", "approved"},
	reflect.TypeFor[policy.Severity]():   {"error", "warning", "notice"},
	reflect.TypeFor[policy.GroupKind]():  {"owners", "requirement", "optional"},
}

type schemaBuilder struct {
	docs map[string]string // "Type.Field" → comment
	defs map[string]any
}

func (b *schemaBuilder) of(typ reflect.Type) map[string]any {
	if values, ok := enums[typ]; ok {
		return map[string]any{"type": "string", "enum": values}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		inner := b.of(typ.Elem())
		return map[string]any{"anyOf": []any{inner, map[string]any{"type": "null"}}}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": b.of(typ.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": b.of(typ.Elem())}
	case reflect.Struct:
		if typ == reflect.TypeFor[time.Time]() {
			return map[string]any{"type": "string", "format": "date-time"}
		}
		b.define(typ)
		return map[string]any{"$ref": "#/$defs/" + typ.Name()}
	}
	panic("no schema for " + typ.String())
}

func (b *schemaBuilder) define(typ reflect.Type) {
	if _, ok := b.defs[typ.Name()]; ok {
		return
	}
	properties, required := map[string]any{}, []string{}
	def := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if doc := b.docs[typ.Name()]; doc != "" {
		def["description"] = doc
	}
	b.defs[typ.Name()] = def
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		s := b.of(f.Type)
		if doc := b.docs[typ.Name()+"."+f.Name]; doc != "" {
			s["description"] = doc
		}
		properties[name] = s
		if options == "" {
			required = append(required, name)
		}
	}
	def["required"] = required
}

// buildSchema derives a type's schema from the type and its comments, so that
// neither can go stale.
func buildSchema(t *testing.T, typ reflect.Type, title string) []byte {
	t.Helper()
	b := &schemaBuilder{docs: comments(t, "snapshot.go", "verdict.go"), defs: map[string]any{}}
	root := b.of(typ)
	root["$schema"], root["title"], root["$defs"] = "https://json-schema.org/draft/2020-12/schema", title, b.defs
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(root); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func comments(t *testing.T, files ...string) map[string]string {
	t.Helper()
	docs := map[string]string{}
	put := func(key string, group *ast.CommentGroup) {
		if group != nil {
			docs[key] = strings.Join(strings.Fields(group.Text()), " ")
		}
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				typ, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				put(typ.Name.Name, gen.Doc)
				if s, ok := typ.Type.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						for _, n := range f.Names {
							put(typ.Name.Name+"."+n.Name, f.Doc)
						}
					}
				}
			}
		}
	}
	return docs
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		file, title string
		typ         reflect.Type
		published   []byte
	}{
		{"schema/snapshot.schema.json", "Countersign snapshot, version 1", reflect.TypeFor[policy.Snapshot](), policy.SnapshotSchema()},
		{"schema/verdict.schema.json", "Countersign verdict, version 1", reflect.TypeFor[policy.Verdict](), policy.VerdictSchema()},
	} {
		t.Run(row.file+" is what the types say", func(t *testing.T) {
			t.Parallel()
			want := buildSchema(t, row.typ, row.title)
			if *update {
				if err := os.WriteFile(row.file, want, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !bytes.Equal(row.published, want) {
				t.Errorf("%s is stale; run go test ./pkg/policy -run TestSchemas -update", row.file)
			}
		})
	}
	t.Run("canonical snapshots and verdicts satisfy their schemas", func(t *testing.T) {
		t.Parallel()
		snapshots, verdicts := newValidator(t, policy.SnapshotSchema()), newValidator(t, policy.VerdictSchema())
		rapid.Check(t, func(t *rapid.T) {
			s, _ := genSnapshot(t)
			if err := snapshots.check(s.MarshalCanonical()); err != nil {
				t.Fatal(err)
			}
			if err := verdicts.check(policy.Evaluate(s).MarshalCanonical()); err != nil {
				t.Fatal(err)
			}
		})
		if err := verdicts.check(policy.Evaluate(policy.Snapshot{}).MarshalCanonical()); err != nil {
			t.Error(err)
		}
	})
	t.Run("the validator of this test refuses what the schema refuses", func(t *testing.T) {
		t.Parallel()
		v := newValidator(t, policy.SnapshotSchema())
		good := string(facts().MarshalCanonical())
		for old, bad := range map[string]string{
			`"version":1`: `"version":"1"`, `"pulls_state":"present"`: `"pulls_state":"yes"`, `"full_name"`: `"fullname"`, `"draft":false,`: ``, `"labels":[]`: `"labels":[1]`,
		} {
			if !strings.Contains(good, old) {
				t.Errorf("%s is not in the snapshot", old)
			}
			if err := v.check([]byte(strings.Replace(good, old, bad, 1))); err == nil {
				t.Errorf("%s instead of %s is accepted", bad, old)
			}
		}
	})
}

// validator checks the part of JSON Schema that the published schemas use.
type validator struct{ root map[string]any }

func newValidator(t *testing.T, schema []byte) *validator {
	t.Helper()
	v := &validator{}
	if err := json.Unmarshal(schema, &v.root); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *validator) check(document []byte) error {
	var value any
	if err := json.Unmarshal(document, &value); err != nil {
		return err
	}
	return v.value(v.root, value, "$")
}

func (v *validator) value(schema map[string]any, value any, path string) error {
	if ref, ok := schema["$ref"].(string); ok {
		def := v.root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		return v.value(def, value, path)
	}
	if options, ok := schema["anyOf"].([]any); ok {
		var err error
		for _, o := range options {
			if err = v.value(o.(map[string]any), value, path); err == nil {
				return nil
			}
		}
		return err
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, value) {
		return fmt.Errorf("%s: %v is not in %v", path, value, enum)
	}
	switch schema["type"] {
	case "object":
		return v.object(schema, value, path)
	case "array":
		items, ok := value.([]any)
		if !ok {
			return fmt.Errorf("%s: not an array", path)
		}
		for i, item := range items {
			if err := v.value(schema["items"].(map[string]any), item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	case "string":
		s, ok := value.(string)
		if !ok {
			return fmt.Errorf("%s: not a string", path)
		}
		if _, err := time.Parse(time.RFC3339, s); schema["format"] == "date-time" && err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
	kinds := map[any]bool{"boolean": reflect.TypeOf(value) == reflect.TypeFor[bool](), "null": value == nil}
	n, isNumber := value.(float64)
	kinds["integer"] = isNumber && n == float64(int64(n))
	if !kinds[schema["type"]] {
		return fmt.Errorf("%s: %v is no %v", path, value, schema["type"])
	}
	return nil
}

func (v *validator) object(schema map[string]any, value any, path string) error {
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: not an object", path)
	}
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, ok := object[name.(string)]; !ok {
			return fmt.Errorf("%s.%s: missing", path, name)
		}
	}
	for name, member := range object {
		rule, known := properties[name].(map[string]any)
		if !known {
			rule, known = schema["additionalProperties"].(map[string]any)
		}
		if !known {
			return fmt.Errorf("%s.%s: unknown", path, name)
		}
		if err := v.value(rule, member, path+"."+name); err != nil {
			return err
		}
	}
	return nil
}

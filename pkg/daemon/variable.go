package daemon

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// prefix is what every variable of Countersign starts with.
const prefix = "COUNTERSIGN_"

// fileSuffix turns a secret's name into that of the file that holds it.
const fileSuffix = "_FILE"

// variable is one field of a config struct, read from its tags:
//
//	env:"COUNTERSIGN_X[,required]"  its name, and the flag --x
//	envDefault:"…"                  its value when unset or empty
//	desc:"…"                        what it does, for --help and docs/configuration.md
//	secret:"true"                   never echoed; also read from the file COUNTERSIGN_X_FILE names
//	newlines:"true"                 a literal \n in the value means a newline (for keys; RG-449)
type variable struct {
	name, flag, kind, deflt, desc string
	required, secret, newlines    bool
}

func (v variable) fileFlag() string { return v.flag + "-file" }

// variablesOf lists the variables of a config struct (or a pointer to one) in
// the order of its fields, nested structs included. A struct it cannot read is
// a programmer's error and named as one.
func variablesOf(config any) ([]variable, error) {
	t := reflect.TypeOf(config)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("config %T is not a struct", config)
	}
	all, err := walkVariables(t)
	if err != nil {
		return nil, err
	}
	return once(t, all)
}

// once keeps each variable's first declaration. Two fields may read one
// variable, in configs that are made of others; they must agree on what it is.
func once(t reflect.Type, all []variable) ([]variable, error) {
	first := map[string]variable{}
	var kept []variable
	for _, v := range all {
		before, ok := first[v.name]
		switch {
		case !ok:
			first[v.name] = v
			kept = append(kept, v)
		case before != v:
			return nil, fmt.Errorf("config %s declares %s twice and differently", t, v.name)
		}
	}
	return kept, nil
}

func walkVariables(t reflect.Type) ([]variable, error) {
	var all []variable
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("env"), ",")
		switch {
		case f.Tag.Get("envPrefix") != "":
			return nil, fmt.Errorf("%s.%s: envPrefix is not supported; write whole names", t, f.Name)
		case name == "-":
			continue
		case name == "" && f.Type.Kind() == reflect.Struct:
			nested, err := walkVariables(f.Type)
			if err != nil {
				return nil, err
			}
			if len(nested) > 0 && !f.IsExported() {
				return nil, fmt.Errorf("%s.%s: a nested config must be exported to be filled", t, f.Name)
			}
			all = append(all, nested...)
		case name == "":
			continue
		case !f.IsExported():
			return nil, fmt.Errorf("%s.%s: a config field must be exported to be filled", t, f.Name)
		default:
			v, err := newVariable(f, name, options)
			if err != nil {
				return nil, fmt.Errorf("%s.%s: %w", t, f.Name, err)
			}
			all = append(all, v)
		}
	}
	return all, nil
}

func newVariable(f reflect.StructField, name, options string) (variable, error) {
	if !strings.HasPrefix(name, prefix) {
		return variable{}, fmt.Errorf("variable %s does not begin with %s", name, prefix)
	}
	v := variable{
		name:     name,
		flag:     strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, prefix)), "_", "-"),
		kind:     kindOf(f.Type),
		deflt:    f.Tag.Get("envDefault"),
		desc:     f.Tag.Get("desc"),
		secret:   f.Tag.Get("secret") == "true",
		newlines: f.Tag.Get("newlines") == "true",
	}
	switch options {
	case "":
	case "required", "required,notEmpty", "notEmpty":
		v.required = true
	default:
		return variable{}, fmt.Errorf("env option %q is not supported; only required is", options)
	}
	if v.desc == "" {
		return variable{}, fmt.Errorf("variable %s has no desc tag", name)
	}
	if v.secret && v.deflt != "" {
		return variable{}, fmt.Errorf("secret %s has a default", name)
	}
	return v, nil
}

func kindOf(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "duration"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list"
	default:
		return "text"
	}
}

// mend says how a value of this kind is written.
func (v variable) mend() string {
	switch v.kind {
	case "duration":
		return "write a number with a unit, for example 500ms, 30s or 5m"
	case "boolean":
		return "write true or false"
	case "integer":
		return "write a whole number"
	case "number":
		return "write a number"
	case "list":
		return "write values separated by commas"
	default:
		return "see " + v.name + " in docs/configuration.md"
	}
}

// SecretsOf returns the values of cfg's fields tagged secret:"true", for RuntimeOptions.
func SecretsOf(cfg any) []string {
	v := reflect.ValueOf(cfg)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	var all []string
	for f := range v.Type().Fields() {
		value := v.FieldByIndex(f.Index)
		switch {
		case !f.IsExported():
		case f.Tag.Get("secret") == "true":
			all = append(all, stringsIn(value)...)
		case value.Kind() == reflect.Struct:
			all = append(all, SecretsOf(value.Interface())...)
		}
	}
	return all
}

func stringsIn(v reflect.Value) []string {
	switch v.Kind() {
	case reflect.String:
		return []string{v.String()}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return []string{string(v.Bytes())}
		}
		var all []string
		for i := range v.Len() {
			all = append(all, stringsIn(v.Index(i))...)
		}
		return all
	}
	return nil
}

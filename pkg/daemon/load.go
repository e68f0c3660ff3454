package daemon

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

// LoadOptions widens what LoadWith accepts.
type LoadOptions struct {
	// Known are config structs of other services: their variables may be set
	// without being read here. For a process that runs several services.
	Known []any
	// Sources, when not nil, is filled with where each value that was set came from.
	Sources map[string]string
}

// Load fills C from flags and COUNTERSIGN_ variables. A flag wins over the
// environment, the environment over the default; an empty variable counts as unset.
//
// A secret is given by value or by the file its _FILE form names, never both
// (RG-449). A COUNTERSIGN_ variable nobody reads is refused with the name it
// resembles (RG-452), and so is any of libpq's own variables, even empty: they
// would quietly change which database is meant (RG-450). Afterwards Validate is
// called on C and on every struct in it that has one.
//
// Every error names the variable, where its value came from and the mend; all
// are reported at once. None contains a secret's value.
func Load[C any](args, environ []string) (C, error) {
	return LoadWith[C](LoadOptions{}, args, environ)
}

// LoadWith is Load with options.
func LoadWith[C any](o LoadOptions, args, environ []string) (C, error) {
	var c C
	if err := load(&c, o, args, environ); err != nil {
		var zero C
		return zero, err
	}
	return c, nil
}

// setting is the text of one variable and the place it came from.
type setting struct {
	text  string
	place string
}

func load(target any, o LoadOptions, args, environ []string) error {
	vars, err := variablesOf(target)
	if err != nil {
		return err
	}
	known := slices.Clone(vars)
	for _, other := range append([]any{Config{}}, o.Known...) {
		more, err := variablesOf(other)
		if err != nil {
			return err
		}
		known = append(known, more...)
	}

	ambient := environment(environ)
	redact := &Redactor{}
	problems := []error{refuseLibpq(ambient), refuseUnknown(ambient, known)}
	flags, err := parseFlags(vars, args)
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	problems = append(problems, err)

	settings := map[string]setting{}
	for _, v := range vars {
		s, ok, err := v.resolve(flags, ambient)
		if v.secret {
			redact.Add(s.text, ambient[v.name], flags[v.flag])
		}
		switch {
		case err != nil:
			problems = append(problems, err)
		case ok:
			settings[v.name] = s
		case v.required:
			problems = append(problems, v.missing())
		}
	}
	if err := errors.Join(problems...); err != nil {
		return redactedError{err, redact}
	}
	if err := fill(target, vars, settings); err != nil {
		return redactedError{err, redact}
	}
	for name, s := range settings {
		if o.Sources != nil {
			o.Sources[name] = s.place
		}
	}
	if err := validate(reflect.ValueOf(target)); err != nil {
		return redactedError{err, redact}
	}
	return nil
}

// resolve finds the text of v. ok is false when it is set nowhere.
func (v variable) resolve(flags, ambient map[string]string) (s setting, ok bool, err error) {
	value := pick(flags, ambient, v.flag, v.name)
	if v.secret {
		file := pick(flags, ambient, v.fileFlag(), v.name+fileSuffix)
		switch {
		case file.text != "" && value.text != "":
			return s, false, fmt.Errorf("%s: given both as a value (%s) and as a file (%s); keep one", v.name, value.place, file.place)
		case file.text != "":
			text, err := readSecret(file.text)
			if err != nil {
				return s, false, fmt.Errorf("%s (%s): %w", v.name+fileSuffix, file.place, err)
			}
			value = setting{text, fmt.Sprintf("the file of %s", v.name+fileSuffix)}
		}
	}
	if v.newlines {
		value.text = strings.ReplaceAll(value.text, `\n`, "\n")
	}
	return value, value.text != "", nil
}

func pick(flags, ambient map[string]string, flagName, envName string) setting {
	if text := flags[flagName]; text != "" {
		return setting{text, "flag --" + flagName}
	}
	return setting{ambient[envName], "environment"}
}

func (v variable) missing() error {
	if v.secret {
		return fmt.Errorf("%s: required and not set; set it, or %s to a file that holds it", v.name, v.name+fileSuffix)
	}
	return fmt.Errorf("%s: required and not set; set it, or give --%s", v.name, v.flag)
}

// fill parses the texts into target. When one does not parse, each is parsed
// alone into a copy, so that the error names the variable and not a Go field.
func fill(target any, vars []variable, settings map[string]setting) error {
	texts := map[string]string{}
	for name, s := range settings {
		texts[name] = s.text
	}
	whole := env.ParseWithOptions(target, env.Options{Environment: texts})
	if whole == nil {
		return nil
	}
	var problems []error
	for _, v := range vars {
		s, ok := settings[v.name]
		if !ok {
			continue
		}
		scratch := reflect.New(reflect.TypeOf(target).Elem()).Interface()
		err := env.ParseWithOptions(scratch, env.Options{Environment: map[string]string{v.name: s.text}})
		var parse env.ParseError
		if !errors.As(err, &parse) {
			continue
		}
		if v.secret {
			problems = append(problems, fmt.Errorf("%s (%s): the value is not a %s; %s", v.name, s.place, v.kind, v.mend()))
		} else {
			problems = append(problems, fmt.Errorf("%s (%s): %q is not a %s; %s", v.name, s.place, s.text, v.kind, v.mend()))
		}
	}
	if len(problems) == 0 {
		return fmt.Errorf("read configuration: %w", whole)
	}
	return errors.Join(problems...)
}

// validator is what a config struct may have to refuse values that parse.
type validator interface{ Validate() error }

// validate calls Validate on every struct of a config, innermost first. One that
// also calls its parts' Validate, or has it promoted to it, reports nothing twice.
func validate(v reflect.Value) error {
	var found []error
	collect(v, &found)
	seen := map[string]bool{}
	return errors.Join(slices.DeleteFunc(found, func(err error) bool {
		before := seen[err.Error()]
		seen[err.Error()] = true
		return before
	})...)
}

func collect(v reflect.Value, found *[]error) {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for f := range v.Type().Fields() {
		if f.IsExported() && f.Type.Kind() == reflect.Struct {
			collect(v.FieldByIndex(f.Index).Addr(), found)
		}
	}
	if own, ok := v.Addr().Interface().(validator); ok {
		*found = append(*found, parts(own.Validate())...)
	}
}

// parts takes joined errors apart.
func parts(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, parts(one)...)
	}
	return all
}

func environment(environ []string) map[string]string {
	m := make(map[string]string, len(environ))
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		m[name] = value
	}
	return m
}

// parseFlags returns the flags that were given. Their values stay text: fill parses them.
func parseFlags(vars []variable, args []string) (map[string]string, error) {
	given := map[string]string{}
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, v := range vars {
		set.Var(flagValue{given, v.flag, v.kind == "boolean"}, v.flag, "")
		if v.secret {
			set.Var(flagValue{given, v.fileFlag(), false}, v.fileFlag(), "")
		}
	}
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil, err
	case err != nil:
		return given, fmt.Errorf("command line: %w%s; --help lists the flags", err, resembling(unknownFlag(err), flagNames(set), "--"))
	case set.NArg() > 0:
		// Not echoed: it may be a secret whose flag was mistyped.
		return given, fmt.Errorf("command line: argument %d belongs to no flag; write --name=value", len(args)-set.NArg()+1)
	}
	return given, nil
}

func unknownFlag(err error) string {
	_, name, _ := strings.Cut(err.Error(), "not defined: -")
	return name
}

func flagNames(set *flag.FlagSet) []string {
	var names []string
	set.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

type flagValue struct {
	given map[string]string
	name  string
	bool  bool
}

func (f flagValue) String() string     { return f.given[f.name] }
func (f flagValue) Set(s string) error { f.given[f.name] = s; return nil }
func (f flagValue) IsBoolFlag() bool   { return f.bool }

// redactedError is an error whose text is free of the secrets that were being
// read when it arose, whoever made it.
type redactedError struct {
	err    error
	redact *Redactor
}

func (e redactedError) Error() string { return e.redact.String(e.err.Error()) }
func (e redactedError) Unwrap() error { return e.err }

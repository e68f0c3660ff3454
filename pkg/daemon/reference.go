package daemon

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Section is one service's part of docs/configuration.md.
type Section struct {
	// Name is the service, as a heading.
	Name string
	// Config is its config struct, or a pointer to one.
	Config any
}

// Setting describes one variable.
type Setting struct {
	Name, Flag, Type, Default, Description string
	Required, Secret                       bool
}

// Describe lists the settings of config structs, in the order of their fields.
func Describe(configs ...any) ([]Setting, error) {
	var all []Setting
	for _, c := range configs {
		vars, err := variablesOf(c)
		if err != nil {
			return nil, err
		}
		for _, v := range vars {
			all = append(all, Setting{v.name, "--" + v.flag, v.kind, v.deflt, v.desc, v.required, v.secret})
		}
	}
	return all, nil
}

// WriteReference writes docs/configuration.md: first the settings that several
// sections share, with who reads them, then each section's own. A variable that
// two sections describe differently is an error.
func WriteReference(w io.Writer, sections []Section) error {
	users := map[string][]string{}
	first := map[string]Setting{}
	own := make([][]Setting, len(sections))
	var shared []Setting
	for i, s := range sections {
		settings, err := Describe(s.Config)
		if err != nil {
			return fmt.Errorf("describe %s: %w", s.Name, err)
		}
		own[i] = settings
		for _, one := range settings {
			if before, ok := first[one.Name]; ok && before != one {
				return fmt.Errorf("describe %s: %s differs from its description in %s", s.Name, one.Name, users[one.Name][0])
			}
			first[one.Name] = one
			users[one.Name] = append(users[one.Name], s.Name)
			if len(users[one.Name]) == 2 {
				shared = append(shared, one)
			}
		}
	}
	var b strings.Builder
	b.WriteString(referencePreface)
	if len(shared) > 0 {
		b.WriteString("\n## Shared\n\n")
		writeTable(&b, shared, users)
	}
	for i, s := range sections {
		var rest []Setting
		for _, one := range own[i] {
			if len(users[one.Name]) == 1 {
				rest = append(rest, one)
			}
		}
		if len(rest) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n", s.Name)
			writeTable(&b, rest, nil)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const referencePreface = `# Configuration

This page is generated from the config structs; a test fails when it is stale.

Each setting is an environment variable and a flag; the flag wins, and an empty variable counts as unset. A **secret** is given by
value or, better, by a file: set the variable's name with ` + "`_FILE`" + ` to a path (regular UTF-8 file of at most 64 KiB, at most 16 symbolic
links, one trailing newline removed), or the flag with ` + "`-file`" + `. Giving both is refused. A secret given as a flag can be read from the
process list by every user of the machine.

A ` + "`COUNTERSIGN_`" + ` variable that the service does not read stops it from starting, and so does any of libpq's own ` + "`PG*`" + ` variables.
Durations are written with a unit: ` + "`500ms`, `30s`, `5m`" + `.
`

func writeTable(b *strings.Builder, settings []Setting, users map[string][]string) {
	if users != nil {
		b.WriteString("| Variable | Flag | Kind | Default | Read by | Meaning |\n|---|---|---|---|---|---|\n")
	} else {
		b.WriteString("| Variable | Flag | Kind | Default | Meaning |\n|---|---|---|---|---|\n")
	}
	for _, s := range settings {
		kind, deflt := s.Type, ""
		if s.Secret {
			kind = "**secret**"
		}
		switch {
		case s.Required:
			deflt = "required"
		case s.Default != "":
			deflt = "`" + s.Default + "`"
		}
		fmt.Fprintf(b, "| `%s` | `%s` | %s | %s ", s.Name, s.Flag, kind, cell(deflt))
		if users != nil {
			fmt.Fprintf(b, "| %s ", cell(strings.Join(users[s.Name], ", ")))
		}
		fmt.Fprintf(b, "| %s |\n", cell(s.Description))
	}
}

// cell keeps a table's text on one line and inside its column.
func cell(s string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(s)
}

// CheckReference compares the file at path with what WriteReference writes, or
// with update writes it. Its error says how to mend a stale page.
func CheckReference(path string, sections []Section, update bool) error {
	var want strings.Builder
	if err := WriteReference(&want, sections); err != nil {
		return err
	}
	if update {
		return os.WriteFile(path, []byte(want.String()), 0o644)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w; run the test with -update to write it", err)
	}
	if string(got) == want.String() {
		return nil
	}
	return fmt.Errorf("%s is stale (%s); run the test with -update to write it", path, firstDifference(string(got), want.String()))
}

func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Sprintf("line %d is %q and should be %q", i+1, x, y)
		}
	}
	return "same lines"
}

// writeUsage prints the flags of a service for --help.
func writeUsage(w io.Writer, service string, configs ...any) error {
	settings, err := Describe(configs...)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "Usage: %s [--name=value …]\n\nEach flag is also an environment variable; secrets are also read from the file that <NAME>_FILE (--name-file) names.\n", service)
	for _, s := range settings {
		fmt.Fprintf(w, "\n  %s (%s) %s\n", s.Flag, s.Name, s.Type)
		fmt.Fprintf(w, "      %s\n", s.Description)
		switch {
		case s.Required:
			fmt.Fprintf(w, "      Required.\n")
		case s.Default != "":
			fmt.Fprintf(w, "      Default %s.\n", s.Default)
		}
	}
	return nil
}

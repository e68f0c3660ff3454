package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/countersign/countersign/pkg/ghclient"
)

var update = flag.Bool("update", false, "write docs/commands.md")

// commandsPage is the page of every command.
func commandsPage() string {
	var b strings.Builder
	b.WriteString("# Commands\n\nWhat `countersign` can do: every command with its flags, made from the program itself (`go test ./cmd/countersign -run TestCommandsPage -update`).\n\n" +
		"Exit codes are the same everywhere: 0 fine, 1 something was checked and is not fine, 2 the command could not do what was asked. Every command that reads the\n" +
		"database takes its URL from `COUNTERSIGN_DATABASE_URL`, from the file that `COUNTERSIGN_DATABASE_URL_FILE` names, or from `--database-url-file`.\n" +
		"`countersign completion bash|zsh|fish|powershell` writes completion, `countersign man DIRECTORY` the manual pages.\n")
	_ = eachCommand(newRootCommand(), func(c *cobra.Command) error {
		if !c.Runnable() || !c.HasParent() || c.HasSubCommands() && c.Name() != "queue" {
			return nil
		}
		b.WriteString("\n## " + c.CommandPath() + "\n\n```text\n" + c.UseLine() + "\n```\n\n" + describe(c) + "\n")
		if c.Example != "" {
			b.WriteString("\n```sh\n" + strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n") + "\n```\n")
		}
		var rows []string
		c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" {
				usage := strings.NewReplacer("|", "\\|", "<", "&lt;", "*", "\\*").Replace(f.Usage)
				rows = append(rows, "| `"+flagForm(f)+"` | "+usage+" |")
			}
		})
		if len(rows) > 0 {
			b.WriteString("\n| flag | what it does |\n|---|---|\n" + strings.Join(rows, "\n") + "\n")
		}
		return nil
	})
	return b.String()
}

func TestCommandsPage(t *testing.T) {
	t.Parallel()
	const page = "../../docs/commands.md"
	want := commandsPage()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil { //nolint:gosec // a page
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil || string(got) != want {
		t.Errorf("docs/commands.md is not what the program says (%v): run go test ./cmd/countersign -run TestCommandsPage -update", err)
	}
}

func TestEveryCommandHelps(t *testing.T) {
	t.Parallel()
	exempt := map[string]bool{"countersign queue": true, "countersign queue purge": true, "countersign database migrate": true, "countersign database check": true, "countersign dev": true, "countersign secrets": true}
	_ = eachCommand(newRootCommand(), func(c *cobra.Command) error {
		if c.HasParent() && !c.HasSubCommands() && c.Example == "" && !exempt[c.CommandPath()] {
			t.Errorf("%s has no example", c.CommandPath())
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: short help is %q", c.CommandPath(), c.Short)
		}
		return nil
	})
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, _ := call(t, "completion", shell); code != exitFine || !strings.Contains(out, "countersign") {
			t.Errorf("completion %s: %d", shell, code)
		}
	}
}

func TestManPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if code, out, errOut := call(t, "man", dir); code != exitFine {
		t.Fatalf("%d %q %q", code, out, errOut)
	}
	text, err := os.ReadFile(filepath.Join(dir, "countersign-decisions-replay.1"))
	if err != nil {
		t.Fatal(err)
	}
	wants(t, string(text), ".TH COUNTERSIGN\\-DECISIONS\\-REPLAY 1", ".SH OPTIONS", "\\-\\-json")
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, ".") && !strings.HasPrefix(line, ".TH") && len(strings.Fields(line)[0]) > 3 {
			t.Errorf("a line that troff would take for a request: %q", line)
		}
	}
}

// fakeLog is a delivery log of two pages.
type fakeLog struct {
	pages map[string][]ghclient.Delivery
	asked []int64
}

func (f *fakeLog) Deliveries(_ context.Context, cursor string) ([]ghclient.Delivery, string, error) {
	if cursor == "" {
		return f.pages[""], "2", nil
	}
	return f.pages[cursor], "", nil
}

func (f *fakeLog) Redeliver(_ context.Context, id int64) error {
	f.asked = append(f.asked, id)
	if id == 13 {
		return ghclient.ErrNotFound
	}
	return nil
}

func TestRedeliver(t *testing.T) {
	t.Parallel()
	now := time.Now()
	attempt := func(id int64, guid string, code int, ago time.Duration) ghclient.Delivery {
		return ghclient.Delivery{ID: id, GUID: guid, StatusCode: code, Status: "x", Event: "pull_request", Action: "opened", DeliveredAt: now.Add(-ago)}
	}
	log := func() *fakeLog {
		return &fakeLog{pages: map[string][]ghclient.Delivery{
			"":  {attempt(15, "through", 202, time.Minute), attempt(14, "failed", 502, 2*time.Minute)},
			"2": {attempt(13, "lost", 0, time.Hour), attempt(12, "through", 500, 2*time.Hour), attempt(11, "failed", 500, 3*time.Hour), attempt(10, "old", 500, 100*time.Hour)},
		}}
	}
	invoke := func(f *fakeLog, o redeliverOptions, ids ...string) (string, error) {
		c := &cobra.Command{}
		c.SetContext(t.Context())
		var out strings.Builder
		c.SetOut(&out)
		c.SetErr(&out)
		err := redeliver(c, f, o, ids, now.Add(-72*time.Hour))
		return out.String(), err
	}
	t.Run("by id, the newest attempt", func(t *testing.T) {
		t.Parallel()
		f := log()
		if out, err := invoke(f, redeliverOptions{}, "failed"); err != nil || len(f.asked) != 1 || f.asked[0] != 14 {
			t.Errorf("%q %v %v", out, err, f.asked)
		}
	})
	t.Run("an id that GitHub does not have is a finding", func(t *testing.T) {
		t.Parallel()
		f := log()
		out, err := invoke(f, redeliverOptions{}, "old")
		if exitCode(err) != exitFindings || len(f.asked) != 0 || !strings.Contains(out, "--since") {
			t.Errorf("%q %v %v", out, err, f.asked)
		}
	})
	t.Run("everything that no attempt brought through", func(t *testing.T) {
		t.Parallel()
		f := log()
		out, err := invoke(f, redeliverOptions{failed: true})
		if exitCode(err) != exitFindings || len(f.asked) != 2 || !strings.Contains(out, "refused") {
			t.Errorf("%q %v %v", out, err, f.asked)
		}
	})
	t.Run("a list asks for nothing", func(t *testing.T) {
		t.Parallel()
		f := log()
		if out, err := invoke(f, redeliverOptions{list: true, json: true}); err != nil || len(f.asked) != 0 || strings.Count(out, "\n") != 3 {
			t.Errorf("%q %v %v", out, err, f.asked)
		}
	})
}

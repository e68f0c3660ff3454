package checkrun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// GitHub is what the protocol needs of an installation's client.
type GitHub interface {
	FindRun(ctx context.Context, repo ghclient.Repo, sha, name string) (ghclient.Run, bool, error)
	ListRuns(ctx context.Context, repo ghclient.Repo, sha, name string, filterAll bool) ([]ghclient.Run, error)
	GetRun(ctx context.Context, repo ghclient.Repo, id int64) (ghclient.Run, error)
	CreateRun(ctx context.Context, repo ghclient.Repo, spec ghclient.RunSpec) (ghclient.Run, error)
	UpdateRun(ctx context.Context, repo ghclient.Repo, id int64, spec ghclient.RunSpec) (ghclient.Run, error)
}

// Config is the managed check's name and its bounds.
type Config struct {
	Name         string        `env:"COUNTERSIGN_CHECK_NAME" envDefault:"Countersign / approval" desc:"name of the managed check run, the one that branch protection requires (RG-290)"`
	WriteTimeout time.Duration `env:"COUNTERSIGN_CHECK_WRITE_TIMEOUT" envDefault:"3s" desc:"bound on one write of a check run with the reads before and after it, inside the publication guard"`
	UndoTimeout  time.Duration `env:"COUNTERSIGN_CHECK_UNDO_TIMEOUT" envDefault:"1500ms" desc:"bound on setting a check run back after a write whose outcome is uncertain, still inside the guard; with COUNTERSIGN_CHECK_WRITE_TIMEOUT at least 250ms below COUNTERSIGN_FAST_PATH_TIMEOUT, which is how long an authority event waits for the guard (P10)"`
	GuardWait    time.Duration `env:"COUNTERSIGN_GUARD_WAIT" envDefault:"10s" desc:"longest wait for the publication guard of a head"`
	// AuthorityWait is ingress's setting: an authority event that waits longer for the guard is refused (RG-161).
	AuthorityWait time.Duration `env:"COUNTERSIGN_FAST_PATH_TIMEOUT" envDefault:"5s" desc:"Longest an accepted delivery waits for the immediate reset of its head, and an authority event for the publication guard: 100ms to 8s."`
}

// releaseMargin is what freeing the guard and the event's own statements may take of an authority event's wait.
const releaseMargin = 250 * time.Millisecond

// Held is the longest that one writer keeps the guard (P10): its write with the reads around it, and undoing it.
func (c Config) Held() time.Duration { return c.WriteTimeout + c.UndoTimeout }

// Validate refuses a name GitHub would not keep and bounds that would let a write outlive its guard.
func (c Config) Validate() error {
	if err := validateName(c.Name); err != nil {
		return err
	}
	if c.WriteTimeout <= 0 || c.GuardWait <= c.WriteTimeout {
		return fmt.Errorf("COUNTERSIGN_CHECK_WRITE_TIMEOUT (%s) must be positive and below COUNTERSIGN_GUARD_WAIT (%s)", c.WriteTimeout, c.GuardWait)
	}
	if c.UndoTimeout < 0 {
		return fmt.Errorf("COUNTERSIGN_CHECK_UNDO_TIMEOUT is %s: use a positive duration", c.UndoTimeout)
	}
	if c.AuthorityWait > 0 && c.Held()+releaseMargin > c.AuthorityWait {
		return fmt.Errorf("COUNTERSIGN_CHECK_WRITE_TIMEOUT (%s) and COUNTERSIGN_CHECK_UNDO_TIMEOUT (%s) together must stay %s below COUNTERSIGN_FAST_PATH_TIMEOUT (%s): authority events are refused when a guard is held longer than they wait", c.WriteTimeout, c.UndoTimeout, releaseMargin, c.AuthorityWait)
	}
	return nil
}

func validateName(name string) error {
	n := 0
	for _, r := range name {
		if r < ' ' || r == 0x7f {
			return errors.New("COUNTERSIGN_CHECK_NAME holds a control character: use printable text")
		}
		n++
	}
	if n < 1 || n > 255 || name[0] == ' ' || name[len(name)-1] == ' ' {
		return fmt.Errorf("COUNTERSIGN_CHECK_NAME must be 1 to 255 printable characters without spaces at its ends, it has %d", n)
	}
	return nil
}

// Texts are what a reader sees while nothing is decided.
type Texts struct{ Title, Summary string }

// Manager applies the protocol. Safe for concurrent use: the guard orders the writers of one head.
type Manager struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
}

// New returns a Manager; reg receives its metrics.
func New(cfg Config, log *slog.Logger, reg prometheus.Registerer) *Manager {
	if cfg.UndoTimeout == 0 {
		cfg.UndoTimeout = cfg.WriteTimeout / 2 // a Config built in code
	}
	return &Manager{cfg: cfg, log: log, metrics: newMetrics(reg)}
}

// Name is the managed check's name.
func (m *Manager) Name() string { return m.cfg.Name }

// GuardWait is how long a caller should wait for a head's guard.
func (m *Manager) GuardWait() time.Duration { return m.cfg.GuardWait }

// ErrUnproved: GitHub was asked and the run still does not read as it must; the work stays pending and is tried again.
var ErrUnproved = errors.New("the check run does not read back as it was written")

// ErrRefused: GitHub understood a publication and will not do it. Asking soon again appends a decision each time and gains nothing.
var ErrRefused = errors.New("github refuses the publication")

// target is one head's run under the guard.
type target struct {
	m     *Manager
	gh    GitHub
	repo  ghclient.Repo
	guard *store.Guard
	head  store.HeadState
	// shielded bounds the guard's statements of a publication.
	shielded context.Context //nolint:containedctx // lives as long as one call of Publish
}

// audit writes one line for each write to GitHub (house style H5) and counts it.
func (t *target) audit(ctx context.Context, operation string, runID int64, from, to string, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	t.m.metrics.writes.WithLabelValues(operation, outcome).Inc()
	attrs := []any{
		"audit", true, "operation", operation, "repo", t.repo.FullName(), "head_sha", string(t.head.Head.SHA), "generation", int64(t.head.Generation),
		"run_id", runID, "from", from, "to", to, "result", outcome,
	}
	if err != nil {
		attrs = append(attrs, "err", err.Error())
	}
	t.m.log.InfoContext(ctx, "check run written", attrs...)
}

// marker is the external id of a run that carries no decision yet: it lets a crashed or unanswered POST be found again.
func marker(head store.HeadState) string {
	return fmt.Sprintf("countersign:pending:%d:%d", int64(head.Head.Repository), int64(head.Generation))
}

func (t *target) inProgress(texts Texts) ghclient.RunSpec {
	return ghclient.RunSpec{
		Name: t.m.cfg.Name, HeadSHA: string(t.head.Head.SHA), Status: "in_progress", ExternalID: marker(t.head),
		Title: texts.Title, Summary: texts.Summary,
	}
}

func unfinished(r ghclient.Run) bool { return r.Status != "completed" && r.Conclusion == "" }

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/deploy/postgres"
	"github.com/countersign/countersign/pkg/store"
)

// databaseFlags are how a command reaches Postgres.
type databaseFlags struct{ urlFile string }

func (f *databaseFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.urlFile, "database-url-file", "", "file with the Postgres URL (default: COUNTERSIGN_DATABASE_URL, or the file COUNTERSIGN_DATABASE_URL_FILE names)")
}

// url reads the URL from the flag's file, the variable's file or the variable; it is in no error.
func (f *databaseFlags) url() (string, error) {
	path := f.urlFile
	if path == "" {
		path = os.Getenv("COUNTERSIGN_DATABASE_URL_FILE")
	}
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read the database URL: %w", err)
		}
		return trimNewline(string(text)), nil
	}
	if u := os.Getenv("COUNTERSIGN_DATABASE_URL"); u != "" {
		return u, nil
	}
	return "", errors.New("no database: set COUNTERSIGN_DATABASE_URL, or give --database-url-file")
}

func trimNewline(s string) string {
	if n := len(s); n > 0 && s[n-1] == '\n' {
		return s[:n-1]
	}
	return s
}

func (f *databaseFlags) config() (store.Config, error) {
	u, err := f.url()
	if err != nil {
		return store.Config{}, err
	}
	return store.Config{
		URL: u, MaxConns: 2, GuardConns: 1, ConnectTimeout: 3 * time.Second, PoolTimeout: 2 * time.Second, StatementLimit: 10 * time.Second,
		AllowPlaintext: os.Getenv("COUNTERSIGN_DATABASE_ALLOW_PLAINTEXT") == "true",
	}, nil
}

// open connects with the flags' settings; the caller closes.
func (f *databaseFlags) open(ctx context.Context) (*store.Store, error) {
	cfg, err := f.config()
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, cfg)
}

func newDatabaseCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "database", Short: "Migrate the database, or check that it is the one this release needs",
		Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newMigrateCommand(), newCheckCommand())
	return c
}

func newMigrateCommand() *cobra.Command {
	var db databaseFlags
	var wait float64
	var noRoles bool
	var passwords string
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the schema to this release's version and apply the service roles",
		Long: `Bring the schema to this release's version and apply the service roles (deploy/postgres/roles.sql), as the database's owner.

Services never migrate: run this before they start. It may run again, and beside itself: a second one waits. An interrupted
migration rolls back. There is no way down: restore a backup instead.

The roles have no password of their own. --role-passwords names a directory with one file a role (countersign_ingress and so
on) that holds its password; Postgres is sent a SCRAM verifier of it. Run it again after changing a file.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if wait < 0.1 || wait > 300 {
				return fmt.Errorf("--lock-timeout-seconds is %g: use 0.1 to 300", wait)
			}
			u, err := db.url()
			if err != nil {
				return err
			}
			roles := postgres.RolesSQL
			if noRoles {
				roles = ""
			}
			if err := store.Migrate(c.Context(), u, roles, time.Duration(wait*float64(time.Second))); err != nil {
				return findings(err.Error())
			}
			if err := setRolePasswords(c.Context(), u, passwords, time.Duration(wait*float64(time.Second))); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "schema version %d\n", store.PackagedVersion())
			return err
		},
	}
	db.add(c)
	c.Flags().Float64Var(&wait, "lock-timeout-seconds", 60, "longest wait for another migration, 0.1 to 300")
	c.Flags().StringVar(&passwords, "role-passwords", "", "directory with one file a role that holds its password; empty: passwords are left alone")
	c.Flags().BoolVar(&noRoles, "no-roles", false, "leave roles and grants alone, where the owner may not create roles")
	return c
}

// setRolePasswords reads one file a role from dir; "" does nothing. Names that begin with a dot are another tool's.
func setRolePasswords(ctx context.Context, url, dir string, wait time.Duration) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read --role-passwords: %w", err)
	}
	passwords := map[string]string{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("read --role-passwords: %w", err)
		}
		passwords[e.Name()] = trimNewline(string(text))
	}
	if len(passwords) == 0 {
		return fmt.Errorf("--role-passwords: %s holds no file; name each after its role", dir)
	}
	return store.SetRolePasswords(ctx, url, passwords, wait)
}

func newCheckCommand() *cobra.Command {
	var db databaseFlags
	c := &cobra.Command{
		Use: "check", Short: "Exit 0 when the schema is exactly this release's, 1 when it is not", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := db.config()
			if err != nil {
				return err
			}
			if err := store.CheckDatabase(c.Context(), cfg); err != nil {
				return findings(err.Error())
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "schema version %d, unchanged\n", store.PackagedVersion())
			return err
		},
	}
	db.add(c)
	return c
}

// queueReport is what `countersign queue --json` prints.
type queueReport struct {
	Queue     string  `json:"queue"`
	Lane      string  `json:"lane"`
	Due       int     `json:"due"`
	Leased    int     `json:"leased"`
	Waiting   int     `json:"waiting"`
	Parked    int     `json:"parked"`
	OldestAge float64 `json:"oldest_age_seconds"`
}

func newQueueCommand() *cobra.Command {
	var db databaseFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "queue", Short: "Show what waits: revocations, authority changes and evaluations", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			rows, err := readQueues(c, s)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(rows)
			}
			return printQueues(c, rows)
		},
	}
	db.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	c.AddCommand(newPurgeCommand())
	return c
}

func newPurgeCommand() *cobra.Command {
	var db databaseFlags
	var installation int64
	c := &cobra.Command{
		Use: "purge", Short: "Remove everything but the decisions of an installation that is gone",
		Long: `Remove everything but the decisions of an installation that is gone, as the database's owner.

Work of an installation that GitHub no longer lists is parked and wakes if it returns; this is for one that will not. Decisions
stay: they are an append-only record. It may run again where it was interrupted.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if installation <= 0 {
				return errors.New("--installation is not set: give the numeric id of the installation")
			}
			s, err := db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			removed, err := s.PurgeInstallation(c.Context(), store.InstallationID(installation))
			switch {
			case errors.Is(err, store.ErrNotFound):
				return findings(fmt.Sprintf("installation %d is not known here", installation))
			case errors.Is(err, store.ErrNotGone):
				return findings(fmt.Sprintf("installation %d is not gone: GitHub listed it at the last scan; uninstall the App there first", installation))
			case err != nil:
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "removed %d rows\n", removed)
			return err
		},
	}
	db.add(c)
	c.Flags().Int64Var(&installation, "installation", 0, "id of the installation")
	return c
}

func readQueues(c *cobra.Command, s *store.Store) ([]queueReport, error) {
	rows := []queueReport{}
	for _, q := range []struct {
		name string
		read func() ([]store.LaneBacklog, error)
	}{
		{"invalidation", func() ([]store.LaneBacklog, error) { return s.ReadInvalidationBacklog(c.Context()) }},
		{"evaluation", func() ([]store.LaneBacklog, error) { return s.ReadEvaluationBacklog(c.Context()) }},
	} {
		lanes, err := q.read()
		if err != nil {
			return nil, err
		}
		for _, l := range lanes {
			rows = append(rows, queueReport{Queue: q.name, Lane: l.Lane.String(), Due: l.Due, Leased: l.Leased, Waiting: l.Waiting, Parked: l.Parked, OldestAge: l.OldestAge.Seconds()})
		}
	}
	a, err := s.ReadAuthorityBacklog(c.Context())
	if err != nil {
		return nil, err
	}
	if a.Due+a.Leased+a.Waiting+a.Parked > 0 {
		rows = append(rows, queueReport{Queue: "authority", Due: a.Due, Leased: a.Leased, Waiting: a.Waiting, Parked: a.Parked, OldestAge: a.OldestAge.Seconds()})
	}
	return rows, nil
}

func printQueues(c *cobra.Command, rows []queueReport) error {
	out := c.OutOrStdout()
	pending := 0
	for _, r := range rows {
		if _, err := fmt.Fprintf(out, "%-13s %-12s due %d, leased %d, waiting %d, parked %d, oldest %s\n", r.Queue, r.Lane, r.Due, r.Leased, r.Waiting, r.Parked,
			time.Duration(r.OldestAge*float64(time.Second)).Round(time.Second)); err != nil {
			return err
		}
		pending += r.Due + r.Leased + r.Waiting + r.Parked
	}
	_, err := fmt.Fprintf(out, "pending=%d\n", pending)
	return err
}

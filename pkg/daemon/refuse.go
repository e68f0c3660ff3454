package daemon

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// libpq lists the variables by which a Postgres client changes its connection
// behind the back of COUNTERSIGN_DATABASE_URL.
// https://www.postgresql.org/docs/current/libpq-envars.html
var libpq = []string{
	"PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGPASSFILE", "PGREQUIREAUTH",
	"PGCHANNELBINDING", "PGSERVICE", "PGSERVICEFILE", "PGOPTIONS", "PGAPPNAME", "PGSSLMODE", "PGREQUIRESSL",
	"PGSSLNEGOTIATION", "PGSSLCOMPRESSION", "PGSSLCERT", "PGSSLKEY", "PGSSLKEYLOGFILE", "PGSSLCERTMODE",
	"PGSSLROOTCERT", "PGSSLCRL", "PGSSLCRLDIR", "PGSSLSNI", "PGSSLPASSWORD", "PGREQUIREPEER",
	"PGSSLMINPROTOCOLVERSION", "PGSSLMAXPROTOCOLVERSION", "PGMINPROTOCOLVERSION", "PGMAXPROTOCOLVERSION",
	"PGGSSENCMODE", "PGKRBSRVNAME", "PGGSSLIB", "PGGSSDELEGATION", "PGCONNECT_TIMEOUT", "PGCLIENTENCODING",
	"PGTARGETSESSIONATTRS", "PGLOADBALANCEHOSTS", "PGDATESTYLE", "PGTZ", "PGGEQO", "PGSYSCONFDIR", "PGLOCALEDIR",
}

// refuseLibpq refuses libpq's variables even when they are empty (RG-450).
func refuseLibpq(ambient map[string]string) error {
	var errs []error
	for _, name := range libpq {
		if _, set := ambient[name]; set {
			errs = append(errs, fmt.Errorf("%s (environment): a Postgres client would take it over COUNTERSIGN_DATABASE_URL; unset it and put what it says into the URL", name))
		}
	}
	return errors.Join(errs...)
}

// serviceLink matches what Kubernetes puts into every container for a Service
// whose name begins with countersign.
var serviceLink = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// refuseUnknown refuses COUNTERSIGN_ variables that nothing reads: one of them
// is a setting somebody believes to be in force (RG-452).
func refuseUnknown(ambient map[string]string, known []variable) error {
	var names []string
	for _, v := range known {
		names = append(names, v.name)
		if v.secret {
			names = append(names, v.name+fileSuffix)
		}
	}
	var errs []error
	for name := range ambient {
		if !strings.HasPrefix(name, prefix) || slices.Contains(names, name) {
			continue
		}
		switch {
		case serviceLink.MatchString(name):
			errs = append(errs, fmt.Errorf("%s (environment): this service has no such setting; Kubernetes made it from a Service's name: set enableServiceLinks: false on the pod", name))
		default:
			errs = append(errs, fmt.Errorf("%s (environment): this service has no such setting%s; unset it, or see docs/configuration.md", name, resembling(name, names, "")))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// resembling proposes the closest of names, or nothing when none is close.
func resembling(name string, names []string, lead string) string {
	best, distance := "", 2+len(name)/5
	for _, n := range names {
		if d := editDistance(name, n); d < distance || d == distance && n < best {
			best, distance = n, d
		}
	}
	if best == "" || name == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s%s?)", lead, best)
}

// editDistance counts the insertions, deletions and substitutions between a and b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

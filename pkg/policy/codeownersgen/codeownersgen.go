// Package codeownersgen makes large CODEOWNERS files and lists of changed paths
// that look like those of a big repository. Benchmarks and tests use them; they
// are the same for the same sizes, on every machine and for ever.
//
// It checks nothing and is not part of any service.
package codeownersgen

import (
	"bytes"
	"fmt"
	"math/rand/v2"
)

// File returns a CODEOWNERS file of so many rules, about 63 bytes each, so that
// 50,000 rules fill 3 MiB. Every pattern is one that all common parsers accept.
//
// Of 100 rules about 60 are anchored directories and files, 20 are extensions and
// names at any depth, and 20 have wildcards in the middle.
func File(rules int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(rules)))
	var b bytes.Buffer
	b.WriteString("* @acme/everyone\n")
	for i := 1; i < rules; i++ {
		pattern := pattern(r, r.IntN(100), rules)
		owners := fmt.Sprintf("@acme/team-%05d", r.IntN(rules))
		switch r.IntN(20) {
		case 0:
			owners = ""
		case 1, 2, 3, 4, 5, 6, 7, 8:
			owners += fmt.Sprintf(" @user-%05d", r.IntN(rules))
		}
		fmt.Fprintf(&b, "%-36s %s\n", pattern, owners)
	}
	return b.Bytes()
}

func pattern(r *rand.Rand, kind, rules int) string {
	service, module, leaf := names(r, rules)
	switch {
	case kind < 40:
		return fmt.Sprintf("/services/%s/%s/", service, module)
	case kind < 52:
		return fmt.Sprintf("/services/%s/%s/%s.go", service, module, leaf)
	case kind < 60:
		return fmt.Sprintf("libs/%s/%s", service, module)
	case kind < 67:
		return fmt.Sprintf("*.ext%d", r.IntN(rules))
	case kind < 75:
		return fmt.Sprintf("%s_%d.md", leaf, r.IntN(rules))
	case kind < 80:
		return fmt.Sprintf("%s_%d/", module, r.IntN(rules))
	case kind < 84:
		return fmt.Sprintf("/services/%s/**/%s_*.pb.go", service, leaf)
	case kind < 88:
		return fmt.Sprintf("/services/%s/*/conf/%s.yaml", service, leaf)
	case kind < 91:
		return fmt.Sprintf("**/%s/%s/", module, leaf)
	case kind < 94:
		return fmt.Sprintf("/services/%s/%s/test_*", service, module)
	case kind < 96:
		return fmt.Sprintf("*_%s_%d.sql", leaf, r.IntN(rules))
	case kind < 98:
		return fmt.Sprintf("*%s%d*", leaf, r.IntN(rules))
	default:
		return fmt.Sprintf("docs/%s/%s/*", service, module)
	}
}

// names draws from sets that grow with the number of rules.
func names(r *rand.Rand, rules int) (service, module, leaf string) {
	services := max(2, rules/100)
	return fmt.Sprintf("service-%d", r.IntN(services)), fmt.Sprintf("module-%d", r.IntN(40)), fmt.Sprintf("file%d", r.IntN(200))
}

// Paths returns so many changed paths of a repository that File(rules) fits, in
// GitHub's order of a pull request's files: sorted by nothing in particular.
func Paths(paths, rules int) []string {
	r := rand.New(rand.NewPCG(2, uint64(rules)))
	result := make([]string, paths)
	for i := range result {
		service, module, leaf := names(r, rules)
		switch r.IntN(10) {
		case 0, 1, 2, 3:
			result[i] = fmt.Sprintf("services/%s/%s/internal/%s/%s.go", service, module, leaf, leaf)
		case 4:
			result[i] = fmt.Sprintf("services/%s/%s/%s.go", service, module, leaf)
		case 5:
			result[i] = fmt.Sprintf("services/%s/%s/api/v1/%s_%d.pb.go", service, module, leaf, i)
		case 6:
			result[i] = fmt.Sprintf("libs/%s/%s/src/main/java/com/acme/%s.java", service, module, leaf)
		case 7:
			result[i] = fmt.Sprintf("web/%s/assets/%s_%d.ext%d", service, leaf, i, r.IntN(rules))
		case 8:
			result[i] = fmt.Sprintf("docs/%s/%s/%s_%d.md", service, module, leaf, r.IntN(rules))
		default:
			result[i] = fmt.Sprintf("migrations/%s/0%d_%s_%d.sql", service, i, leaf, r.IntN(rules))
		}
	}
	return result
}

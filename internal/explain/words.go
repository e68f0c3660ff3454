package explain

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/countersign/countersign/pkg/policy"
)

// joined writes the parts that are not empty, with a comma between them.
func joined(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, ", ")
}

func number(n int) string { return strconv.Itoa(n) }

func actorName(a *policy.Actor) string {
	if a == nil {
		return "a deleted account"
	}
	return a.Login
}

// shortDigest tells two texts apart at a glance.
func shortDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:6])
}

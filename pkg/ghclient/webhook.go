package ghclient

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
)

var (
	// ErrBadSignature: the body wasn't signed with any of our secrets (RG-021: 401).
	ErrBadSignature = errors.New("webhook signature does not match any configured secret")
	// ErrNoSecret: there is nothing to verify against, so nothing may be accepted (RG-031: 503).
	ErrNoSecret = errors.New("no webhook secret is configured")
)

const signaturePrefix = "sha256="

// VerifySignature proves that the raw body was signed with one of secrets (header X-Hub-Signature-256, RG-020…022).
// Several secrets allow a rotation without a lost delivery. All of them are tried whatever the outcome of an earlier one,
// and each comparison is constant time, so the answer's delay says nothing about which secret or byte was near.
func VerifySignature(secrets [][]byte, header string, body []byte) error {
	tried, matched := 0, false
	text, ok := strings.CutPrefix(header, signaturePrefix)
	claimed, err := hex.DecodeString(text)
	wellFormed := ok && err == nil && len(claimed) == sha256.Size
	for _, secret := range secrets {
		if len(secret) == 0 {
			continue // HMAC accepts an empty key; we never do
		}
		tried++
		mac := hmac.New(sha256.New, secret)
		mac.Write(body)
		if hmac.Equal(mac.Sum(nil), claimed) {
			matched = true
		}
	}
	switch {
	case tried == 0:
		return ErrNoSecret
	case !wellFormed || !matched:
		return ErrBadSignature
	}
	return nil
}

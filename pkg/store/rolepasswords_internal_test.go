package store

import (
	"encoding/base64"
	"strings"
	"testing"
)

// TestScramVerifier holds the verifier to the example exchange of RFC 7677: the server's signature there was made with the
// server key that belongs to the password "pencil".
func TestScramVerifier(t *testing.T) {
	t.Parallel()
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := scramOf("pencil", salt)
	if err != nil {
		t.Fatal(err)
	}
	head, keys, _ := strings.Cut(strings.TrimPrefix(verifier, "SCRAM-SHA-256$"), "$")
	if head != "4096:W22ZaJ0SNY7soEsUEjb6gQ==" {
		t.Errorf("iterations and salt are %q", head)
	}
	stored, server, _ := strings.Cut(keys, ":")
	if b, err := base64.StdEncoding.DecodeString(stored); err != nil || len(b) != 32 {
		t.Errorf("the stored key is %q", stored)
	}
	serverKey, err := base64.StdEncoding.DecodeString(server)
	if err != nil {
		t.Fatal(err)
	}
	const nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	exchange := "n=user,r=rOprNGfwEbeRWgbNEkqO,r=" + nonce + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=" + nonce
	if got := base64.StdEncoding.EncodeToString(hmacSHA256(serverKey, exchange)); got != "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" {
		t.Errorf("the server would sign %s", got)
	}
}

func TestScramVerifierRefuses(t *testing.T) {
	t.Parallel()
	for _, password := range []string{"", "short", "a password with spaces", "pässwörter-are-not-ascii", "0123456789abcdef\n"} {
		if _, err := scramVerifier(password); err == nil {
			t.Errorf("%q was taken", password)
		} else if password != "" && strings.Contains(err.Error(), password) {
			t.Errorf("the error holds the password: %v", err)
		}
	}
	a, err := scramVerifier("0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := scramVerifier("0123456789abcdef"); err != nil || a == b {
		t.Errorf("twice the same salt: %s (%v)", a, err)
	}
}

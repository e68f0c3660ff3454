package setup

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// audience keeps a state of this flow from being one of any other that is signed with the same key.
const audience = "countersign-setup"

var errState = errors.New("the state is not one that this page gave out, or it is too old: open the page again")

type state struct {
	Audience string `json:"aud"`
	Expires  int64  `json:"exp"`
	Nonce    string `json:"nonce"`
}

// newState is a signed token that ends after life, and the nonce that the browser has to bring along.
func newState(key []byte, now time.Time, life time.Duration) (token, nonce string) {
	nonce = randomText()
	body, _ := json.Marshal(state{Audience: audience, Expires: now.Add(life).Unix(), Nonce: nonce}) // three plain fields always marshal
	text := base64.RawURLEncoding.EncodeToString(body)
	return text + "." + base64.RawURLEncoding.EncodeToString(sign(key, text)), nonce
}

func checkState(key []byte, now time.Time, token, nonce string) error {
	text, mac, _ := strings.Cut(token, ".")
	sum, err := base64.RawURLEncoding.DecodeString(mac)
	if err != nil || !hmac.Equal(sum, sign(key, text)) {
		return errState
	}
	body, err := base64.RawURLEncoding.DecodeString(text)
	var s state
	if err != nil || json.Unmarshal(body, &s) != nil || s.Audience != audience || now.Unix() >= s.Expires || nonce == "" || !hmac.Equal([]byte(nonce), []byte(s.Nonce)) {
		return errState
	}
	return nil
}

func sign(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func randomText() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails on the platforms Go supports
	return base64.RawURLEncoding.EncodeToString(b)
}

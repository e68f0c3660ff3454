package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// output is a buffer that may be read while it is written.
type output struct{ lines chan string }

func (o *output) Write(b []byte) (int, error) {
	o.lines <- string(b)
	return len(b), nil
}

func TestServesAWorldToRehearseOn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	key := filepath.Join(t.TempDir(), "app.pem")
	out := &output{lines: make(chan string, 100)}
	done := make(chan error, 1)
	go func() { done <- run(ctx, []string{"--listen", "127.0.0.1:0", "--key", key}, out) }()

	var text bytes.Buffer
	for deadline := time.After(20 * time.Second); !strings.Contains(text.String(), "approve: "); {
		select {
		case line := <-out.lines:
			text.WriteString(line)
		case err := <-done:
			t.Fatalf("ended: %v", err)
		case <-deadline:
			t.Fatalf("printed only: %s", text.String())
		}
	}
	raw, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		t.Fatal("the key file holds no PEM")
	}
	if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(text.String())
	token := regexp.MustCompile(`alice (ghp_\w+)`).FindStringSubmatch(text.String())[1]
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/repos/acme/widgets/pulls/1/reviews", strings.NewReader(`{"event":"APPROVE"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var review struct {
		State string `json:"state"`
		User  struct {
			Login string `json:"login"`
		} `json:"user"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&review); err != nil {
		t.Fatal(err)
	}
	if review.State != "APPROVED" || review.User.Login != "alice" {
		t.Errorf("the printed command made the review %+v", review)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRefusesAnUnknownFlag(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), []string{"--lissten", "x"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "lissten") {
		t.Errorf("error %v, want one that names the flag", err)
	}
}

package ingress

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/daemon"
)

// environment is the least that starts an ingress.
func environment(more ...string) []string {
	return append([]string{
		"COUNTERSIGN_DATABASE_URL=postgres://countersign_ingress@127.0.0.1/countersign", "COUNTERSIGN_GITHUB_APP_ID=4242",
		"COUNTERSIGN_WEBHOOK_SECRET=" + secret,
	}, more...)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	t.Run("the least configuration has the documented defaults", func(t *testing.T) {
		t.Parallel()
		got, err := daemon.Load[Config](nil, environment())
		if err != nil {
			t.Fatal(err)
		}
		want := got
		want.Listen, want.FastPathTimeout, want.OrgRepository = "127.0.0.1:8081", 5*time.Second, ".github"
		want.PolicyPaths = []string{".github/countersign.toml", ".github/extra-codeowners.toml"}
		want.RequestRate, want.RequestBurst, want.MaxInFlight, want.BodyMemory = 200, 400, 256, 128<<20
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("config (-want +got):\n%s", diff)
		}
	})
	refused := []struct {
		name string
		set  []string
		says string
	}{
		{"RG-449 a secret of 31 bytes", []string{"COUNTERSIGN_WEBHOOK_SECRET=" + secret[1:]}, "COUNTERSIGN_WEBHOOK_SECRET: 31 bytes are too few"},
		{"RG-449 a previous secret of 31 bytes", []string{"COUNTERSIGN_WEBHOOK_SECRET_PREVIOUS=" + oldSecret[1:]}, "COUNTERSIGN_WEBHOOK_SECRET_PREVIOUS: 31 bytes are too few"},
		{"RG-449 no secret", []string{"COUNTERSIGN_WEBHOOK_SECRET="}, "COUNTERSIGN_WEBHOOK_SECRET: not set"},
		{"RG-449 a secret by value and by file", []string{"COUNTERSIGN_WEBHOOK_SECRET_FILE=/etc/countersign/webhook"}, "keep one"},
		{"RG-449 no App id", []string{"COUNTERSIGN_GITHUB_APP_ID="}, "COUNTERSIGN_GITHUB_APP_ID: not a positive number"},
		{"a key of GitHub's, which this service never takes", []string{"COUNTERSIGN_GITHUB_PRIVATE_KEY=x"}, "COUNTERSIGN_GITHUB_PRIVATE_KEY"},
		{"RG-139 a fast path of 50ms", []string{"COUNTERSIGN_FAST_PATH_TIMEOUT=50ms"}, "COUNTERSIGN_FAST_PATH_TIMEOUT: 50ms is outside 100ms to 8s"},
		{"RG-139 a fast path of 9s", []string{"COUNTERSIGN_FAST_PATH_TIMEOUT=9s"}, "COUNTERSIGN_FAST_PATH_TIMEOUT: 9s is outside 100ms to 8s"},
		{"an address without a port", []string{"COUNTERSIGN_INGRESS_LISTEN=127.0.0.1"}, "COUNTERSIGN_INGRESS_LISTEN: \"127.0.0.1\" is not host:port"},
		{"a policy repository with its owner", []string{"COUNTERSIGN_ORG_POLICY_REPOSITORY=acme/.github"}, "without the owner"},
		{"a policy path from the root of a disk", []string{"COUNTERSIGN_POLICY_PATHS=/etc/policy"}, "COUNTERSIGN_POLICY_PATHS: \"/etc/policy\""},
		{"a rate that is none", []string{"COUNTERSIGN_INGRESS_REQUEST_RATE=NaN"}, "COUNTERSIGN_INGRESS_REQUEST_RATE"},
		{"a negative rate", []string{"COUNTERSIGN_INGRESS_REQUEST_RATE=-1"}, "COUNTERSIGN_INGRESS_REQUEST_RATE"},
		{"no burst", []string{"COUNTERSIGN_INGRESS_REQUEST_BURST=0"}, "COUNTERSIGN_INGRESS_REQUEST_BURST"},
		{"nothing in flight", []string{"COUNTERSIGN_INGRESS_MAX_IN_FLIGHT=0"}, "COUNTERSIGN_INGRESS_MAX_IN_FLIGHT"},
		{"less memory than one body", []string{"COUNTERSIGN_INGRESS_BODY_MEMORY=10485760"}, "COUNTERSIGN_INGRESS_BODY_MEMORY"},
	}
	for _, row := range refused {
		t.Run(row.name+" is refused by name", func(t *testing.T) {
			t.Parallel()
			_, err := daemon.Load[Config](nil, environment(row.set...))
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), row.says) {
				t.Errorf("error %q does not say %q", err, row.says)
			}
			for _, text := range []string{secret, secret[1:], oldSecret[1:]} {
				if strings.Contains(err.Error(), text) {
					t.Errorf("the error repeats a secret: %q", err)
				}
			}
		})
	}
	t.Run("RG-139 100ms and 8s are taken", func(t *testing.T) {
		t.Parallel()
		for _, value := range []string{"100ms", "8s"} {
			if _, err := daemon.Load[Config](nil, environment("COUNTERSIGN_FAST_PATH_TIMEOUT="+value)); err != nil {
				t.Errorf("%s: %v", value, err)
			}
		}
	})
}

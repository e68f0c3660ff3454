package fanout

import (
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/githubsim"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	sim := githubsim.New(githubsim.Options{})
	t.Cleanup(sim.Close)
	key := string(sim.AddApp(githubsim.App{}).PEM)
	environ := func(more ...string) []string {
		return append([]string{
			"COUNTERSIGN_DATABASE_URL=postgres://countersign_fanout@127.0.0.1/countersign",
			"COUNTERSIGN_GITHUB_APP_ID=7", "COUNTERSIGN_GITHUB_PRIVATE_KEY=" + key,
		}, more...)
	}
	t.Run("RG-228 RG-276 the defaults", func(t *testing.T) {
		t.Parallel()
		c, err := daemon.Load[Config](nil, environ())
		if err != nil {
			t.Fatal(err)
		}
		if c.InaccessibleRetryMax != 6*time.Hour || c.Worker.Lease != 2*time.Minute || c.Worker.Poll != 500*time.Millisecond || c.Worker.RetryMax != time.Minute || c.Worker.Concurrency != 8 {
			t.Errorf("%+v", c)
		}
	})
	for _, row := range []struct{ variable, low, high string }{
		{"COUNTERSIGN_AUTHORITY_INACCESSIBLE_RETRY_MAX", "299s", "24h1s"},
		{"COUNTERSIGN_WORKER_LEASE", "29s", "61m"},
		{"COUNTERSIGN_WORKER_POLL", "49ms", "61s"},
		{"COUNTERSIGN_WORKER_RETRY_MAX", "4s", "61m"},
		{"COUNTERSIGN_WORKER_CONCURRENCY", "0", "65"},
	} {
		t.Run("RG-228 RG-276 refused outside its bounds: "+row.variable, func(t *testing.T) {
			t.Parallel()
			for _, value := range []string{row.low, row.high} {
				if _, err := daemon.Load[Config](nil, environ(row.variable+"="+value)); err == nil || !strings.Contains(err.Error(), row.variable) {
					t.Errorf("%s: %v", value, err)
				}
			}
		})
	}
}

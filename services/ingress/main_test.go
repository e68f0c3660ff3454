package ingress

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// A goroutine that outlives its test is one that outlives its request, or its process's drain.
func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultClient.CloseIdleConnections() // the tests' own
	if code == 0 {
		if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/countersign/countersign/pkg/store/localpg.spawn.func1")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

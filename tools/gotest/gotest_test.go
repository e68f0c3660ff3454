package gotest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const stream = `{"Action":"start","Package":"p/ok"}
{"Action":"run","Package":"p/ok","Test":"TestA"}
{"Action":"output","Package":"p/ok","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"run","Package":"p/ok","Test":"TestA/RG-001_x"}
{"Action":"output","Package":"p/ok","Test":"TestA/RG-001_x","Output":"noise\n"}
{"Action":"pass","Package":"p/ok","Test":"TestA/RG-001_x","Elapsed":0}
{"Action":"pass","Package":"p/ok","Test":"TestA","Elapsed":0}
{"Action":"run","Package":"p/ok","Test":"TestSkip"}
{"Action":"output","Package":"p/ok","Test":"TestSkip","Output":"=== RUN   TestSkip\n"}
{"Action":"output","Package":"p/ok","Test":"TestSkip","Output":"    a_test.go:9: only root\n"}
{"Action":"skip","Package":"p/ok","Test":"TestSkip"}
{"Action":"output","Package":"p/ok","Output":"PASS\n"}
{"Action":"output","Package":"p/ok","Output":"ok  \tp/ok\t0.1s\n"}
{"Action":"pass","Package":"p/ok","Elapsed":0.1}
{"Action":"start","Package":"p/none"}
{"Action":"output","Package":"p/none","Output":"?   \tp/none\t[no test files]\n"}
{"Action":"skip","Package":"p/none"}
{"Action":"build-output","ImportPath":"p/broken","Output":"# p/broken\nx.go:1: undefined: y\n"}
{"Action":"build-fail","ImportPath":"p/broken"}
{"Action":"start","Package":"p/broken"}
{"Action":"output","Package":"p/broken","Output":"FAIL\tp/broken [build failed]\n"}
{"Action":"fail","Package":"p/broken","Elapsed":0,"FailedBuild":"p/broken"}
{"Action":"start","Package":"p/bad"}
{"Action":"run","Package":"p/bad","Test":"TestGood"}
{"Action":"output","Package":"p/bad","Test":"TestGood","Output":"quiet\n"}
{"Action":"pass","Package":"p/bad","Test":"TestGood"}
{"Action":"run","Package":"p/bad","Test":"TestBad"}
{"Action":"output","Package":"p/bad","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"p/bad","Test":"TestBad","Output":"    b_test.go:3: got 1\n"}
{"Action":"fail","Package":"p/bad","Test":"TestBad"}
{"Action":"run","Package":"p/bad","Test":"TestHung"}
{"Action":"output","Package":"p/bad","Test":"TestHung","Output":"panic: timed out\n"}
{"Action":"output","Package":"p/bad","Output":"FAIL\tp/bad\t2s\n"}
{"Action":"fail","Package":"p/bad","Elapsed":2}
not an event
`

const plain = `ok  	p/ok	0.1s
?   	p/none	[no test files]
# p/broken
x.go:1: undefined: y
FAIL	p/broken [build failed]
    b_test.go:3: got 1
panic: timed out
FAIL	p/bad	2s
not an event
skipped: p/ok TestSkip: a_test.go:9: only root
3 tests passed, 1 failed, 1 skipped; 4 packages, 2 failed
`

func TestPrinterPrintsThePlainForm(t *testing.T) {
	t.Parallel()
	var out, raw bytes.Buffer
	p := NewPrinter(&out)
	if err := p.Copy(strings.NewReader(stream), &raw); err != nil {
		t.Fatal(err)
	}
	p.Summary()
	if diff := cmp.Diff(plain, out.String()); diff != "" {
		t.Errorf("plain form (-want +got):\n%s", diff)
	}
	if raw.String() != stream {
		t.Error("the stored stream differs from the one read")
	}
}

func TestReadReturnsEveryOutcome(t *testing.T) {
	t.Parallel()
	got, err := Read(strings.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	want := []Result{
		{"p/ok", "TestA", Passed}, {"p/ok", "TestA/RG-001_x", Passed}, {"p/ok", "TestSkip", Skipped},
		{"p/bad", "TestGood", Passed}, {"p/bad", "TestBad", Failed}, {"p/bad", "TestHung", Unfinished},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestARepeatedTestKeepsItsFailure(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		events []string
		want   Outcome
	}{
		{"fail then pass", []string{"run", "fail", "run", "pass"}, Failed},
		{"pass then fail", []string{"run", "pass", "run", "fail"}, Failed},
		{"pass then nothing", []string{"run", "pass", "run"}, Unfinished},
		{"pass twice", []string{"run", "pass", "run", "pass"}, Passed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var in strings.Builder
			for _, action := range tc.events {
				in.WriteString(`{"Action":"` + action + `","Package":"p","Test":"TestA"}` + "\n")
			}
			got, err := Read(strings.NewReader(in.String()))
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != 1 || got[0].Outcome != tc.want {
				t.Errorf("got %+v, want one %q", got, tc.want)
			}
		})
	}
}

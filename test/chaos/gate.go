package chaos

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/githubsim"
)

// valve holds back or ends what one replica sends and receives. A replica that is cut off looks to Postgres, NATS and GitHub
// exactly like a process that was killed: its connections end, what it sent is on its way, and nothing follows.
type valve struct {
	mu     sync.Mutex
	closed bool
	held   chan struct{} // closed when what is held back may go on; nil: nothing is
	ends   []func()
}

// onCut registers what ends the traffic.
func (v *valve) onCut(end func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		end()
		return
	}
	v.ends = append(v.ends, end)
}

// cut ends all traffic for good.
func (v *valve) cut() {
	v.mu.Lock()
	v.closed = true
	ends := v.ends
	v.ends = nil
	v.mu.Unlock()
	v.release()
	for _, end := range ends {
		end()
	}
}

// hold keeps what the replica sends back until release.
func (v *valve) hold() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held == nil && !v.closed {
		v.held = make(chan struct{})
	}
}

func (v *valve) release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.held != nil {
		close(v.held)
		v.held = nil
	}
}

func (v *valve) pass() {
	v.mu.Lock()
	held := v.held
	v.mu.Unlock()
	if held != nil {
		<-held
	}
}

// relay passes connections of a listener on to an address.
func (v *valve) relay(l net.Listener, network, address string) {
	v.onCut(func() { _ = l.Close() })
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		out, err := net.DialTimeout(network, address, 2*time.Second)
		if err != nil {
			_ = in.Close()
			continue
		}
		closeBoth := func() { _, _ = in.Close(), out.Close() }
		v.onCut(closeBoth)
		go func() { defer closeBoth(); v.copy(out, in, true) }()
		go func() { defer closeBoth(); v.copy(in, out, false) }()
	}
}

// copy passes bytes on; what the replica sends waits while it is held back.
func (v *valve) copy(to, from net.Conn, sending bool) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if sending {
				v.pass()
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// github serves the stand-in to one replica. A request counts as arrived before it is held back: it had left the replica.
func (v *valve) github(sim *githubsim.Sim) (url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	answers := sim.Handler()
	srv := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(sim.Arrive(r.Context()))
		v.pass()
		answers.ServeHTTP(w, r)
	})}
	v.onCut(func() { _ = srv.Close() })
	go func() { _ = srv.Serve(l) }()
	return "http://" + l.Addr().String(), nil
}

// sleep waits; false says that ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

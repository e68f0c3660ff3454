package console

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// How long one connection lasts, how often it shows that it is alive, and how long a page goes unlooked at where nothing tells of a change.
const (
	liveLife  = 10 * time.Minute
	heartbeat = 15 * time.Second
	pullEvery = 3 * time.Second
	listEvery = 20 * time.Second
)

// pulse is read once for all open pages: while it stays, hardly anything can have changed.
type pulse struct {
	mu   sync.Mutex
	at   time.Time
	text string
}

func (c *Console) readPulse(ctx context.Context) (string, error) {
	c.beat.mu.Lock()
	defer c.beat.mu.Unlock()
	if time.Since(c.beat.at) < c.LivePause/2 {
		return c.beat.text, nil
	}
	text, err := c.Store.ReadPulse(ctx)
	if err != nil {
		return "", err
	}
	c.beat.text, c.beat.at = text, time.Now()
	return text, nil
}

// look reads what the page would show now and returns its mark. The viewer is asked for anew each time: somebody who lost access is told
// nothing more.
type look func(r *http.Request, v viewer) (string, error)

func (c *Console) livePulls(w http.ResponseWriter, r *http.Request, v viewer) {
	c.follow(w, r, v, "pulls", listEvery, func(r *http.Request, v viewer) (string, error) {
		view, err := c.readPulls(r, v)
		return view.Mark, err
	})
}

func (c *Console) liveOwners(w http.ResponseWriter, r *http.Request, v viewer) {
	c.follow(w, r, v, "owners", listEvery, func(r *http.Request, v viewer) (string, error) {
		view, err := c.readOwners(r, v)
		return view.Mark, err
	})
}

func (c *Console) liveOperations(w http.ResponseWriter, r *http.Request, v viewer) {
	if !v.Operator {
		http.NotFound(w, r)
		return
	}
	c.follow(w, r, v, "operations", pullEvery, func(r *http.Request, v viewer) (string, error) {
		if !v.Operator {
			return "", errHidden
		}
		view, err := c.readOperations(r.Context())
		return view.Mark, err
	})
}

func (c *Console) livePull(w http.ResponseWriter, r *http.Request, v viewer) {
	if _, err := c.pullKey(r, v); err != nil {
		http.NotFound(w, r)
		return
	}
	c.follow(w, r, v, "pull", pullEvery, func(r *http.Request, v viewer) (string, error) {
		p, err := c.explained(r, v)
		if err != nil {
			return "", err
		}
		return pullMark(p), nil
	})
}

// follow tells the page when what it would show has changed, until the reader goes, may no longer see it, or the time is up; the
// browser then connects anew.
func (c *Console) follow(w http.ResponseWriter, r *http.Request, v viewer, page string, every time.Duration, look look) {
	select {
	case c.live <- struct{}{}:
		defer func() { <-c.live }()
	default:
		w.Header().Set("Retry-After", "60")
		http.Error(w, "Too many pages are kept up to date: this one is static.", http.StatusServiceUnavailable)
		return
	}
	c.metrics.live.Inc()
	defer c.metrics.live.Dec()
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy would hold the events back
	s := &stream{w: w, c: http.NewResponseController(w)}
	mark := r.URL.Query().Get("mark")
	ended := time.NewTimer(liveLife)
	defer ended.Stop()
	tick := time.NewTicker(c.LivePause)
	defer tick.Stop()
	var looked, wrote time.Time
	seen := ""
	for first := true; ; first = false {
		if s.err != nil {
			return
		}
		beat, err := c.readPulse(r.Context())
		if err == nil && (first || beat != seen || time.Since(looked) >= every) {
			if v, err = c.access.viewer(r.Context(), r); err != nil {
				s.send("bye", "")
				return
			}
			var now string
			if now, err = look(r, v); notThere(err) {
				s.send("bye", "")
				return
			}
			if err == nil {
				seen, looked = beat, time.Now()
				if now != mark {
					mark, wrote = now, time.Now()
					c.metrics.changes.WithLabelValues(page).Inc()
					s.send("change", now)
				}
			}
		}
		if time.Since(wrote) >= heartbeat {
			s.comment()
			wrote = time.Now()
		}
		select {
		case <-c.closing:
			return
		case <-r.Context().Done():
			return
		case <-ended.C:
			return
		case <-tick.C:
		}
	}
}

// stream writes server-sent events; the first failure ends it. The server's bound on a whole answer is lifted, the one on each write set.
type stream struct {
	w   http.ResponseWriter
	c   *http.ResponseController
	err error
}

func (s *stream) send(event, data string) {
	s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", event, data))
}
func (s *stream) comment() { s.write(": here\n\n") }

func (s *stream) write(text string) {
	if s.err != nil {
		return
	}
	_ = s.c.SetWriteDeadline(time.Now().Add(10 * time.Second)) // a recorder in a test has none
	if _, s.err = s.w.Write([]byte(text)); s.err == nil {
		s.err = s.c.Flush()
	}
}

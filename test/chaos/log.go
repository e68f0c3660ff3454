package chaos

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// Log is what happened in one schedule, with the time since it began. Safe for concurrent use.
type Log struct {
	mu    sync.Mutex
	began time.Time
	buf   bytes.Buffer
}

// NewLog begins a log.
func NewLog() *Log { return &Log{began: time.Now()} }

// Printf adds a line.
func (l *Log) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.buf, "%9.3f  ", time.Since(l.began).Seconds()*1000)
	fmt.Fprintf(&l.buf, format, args...)
	l.buf.WriteByte('\n')
}

// Write adds what a service logged.
func (l *Log) Write(p []byte) (int, error) {
	l.Printf("  %s", bytes.TrimSpace(p))
	return len(p), nil
}

// WriteTo writes the log.
func (l *Log) WriteTo(w io.Writer) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := w.Write(l.buf.Bytes())
	return int64(n), err
}

package githubsim

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // X-Hub-Signature is SHA-1 by definition
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// dispatcher sends webhooks, in the order they were enqueued unless told
// otherwise, and keeps the delivery log.
type dispatcher struct {
	sim    *Sim
	client *http.Client
	ctx    context.Context //nolint:containedctx // ends with the stand-in, not with a call
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	wake    *sync.Cond
	queue   []*delivery
	held    []*delivery
	holding bool
	busy    int
	closed  bool
	faults  []*WebhookFault
	log     []*delivery // oldest first
}

func newDispatcher(s *Sim) *dispatcher {
	timeout := s.opts.DeliveryTimeout
	if timeout == 0 {
		timeout = 10 * time.Second // GitHub's; Enterprise Server waits 30 s
		if s.opts.Enterprise != "" {
			timeout = 30 * time.Second
		}
	}
	d := &dispatcher{sim: s, client: &http.Client{
		Timeout: timeout, Transport: &http.Transport{MaxIdleConnsPerHost: 4},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	d.wake = sync.NewCond(&d.mu)
	d.ctx, d.cancel = context.WithCancel(context.Background())
	for range max(1, s.opts.DeliveryConcurrency) {
		d.done.Add(1)
		go d.run()
	}
	return d
}

func (d *dispatcher) close() {
	d.mu.Lock()
	d.closed, d.queue, d.held = true, nil, nil
	d.wake.Broadcast()
	d.mu.Unlock()
	d.cancel()
	d.done.Wait()
	d.client.CloseIdleConnections()
}

// enqueue applies the webhook faults and queues what is left.
func (d *dispatcher) enqueue(list ...*delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range list {
		for _, v := range d.fate(one) {
			if d.holding {
				d.held = append(d.held, v)
				continue
			}
			d.queue = append(d.queue, v)
		}
	}
	d.wake.Broadcast()
}

func (d *dispatcher) run() {
	defer d.done.Done()
	for {
		d.mu.Lock()
		for len(d.queue) == 0 && !d.closed {
			d.wake.Wait()
		}
		if d.closed {
			d.mu.Unlock()
			return
		}
		next := d.queue[0]
		d.queue = d.queue[1:]
		d.busy++
		d.mu.Unlock()

		d.send(next)
		d.sim.observeAnswer(next)

		d.mu.Lock()
		d.busy--
		d.log = append(d.log, next)
		d.wake.Broadcast()
		d.mu.Unlock()
	}
}

// settle waits for an empty queue and idle senders.
func (d *dispatcher) settle(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.wake.Broadcast()
	})
	defer stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.queue) > 0 || d.busy > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		d.wake.Wait()
	}
	return nil
}

// send posts one delivery and records what came back in it.
func (d *dispatcher) send(v *delivery) {
	if v.wait > 0 && !d.pause(v.wait) {
		return
	}
	v.deliveredAt, v.requestHeaders, v.responseHeaders = d.sim.tick(), d.headers(v), map[string]string{}
	start := time.Now()
	defer func() { v.duration = time.Since(start) }()
	if v.unreachable {
		v.status = "failed to connect"
		return
	}
	req, err := http.NewRequestWithContext(d.ctx, http.MethodPost, v.url, bytes.NewReader(v.body))
	if err != nil {
		v.status = "failed to connect"
		return
	}
	for k, h := range v.requestHeaders {
		req.Header.Set(k, h)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		v.status = "failed to connect"
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			v.status = "timed out"
		}
		d.sim.log.Warn("webhook not delivered", "event", v.event, "status", v.status)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what arrived is what the log shows
	v.code, v.responseBody, v.status = resp.StatusCode, string(body), "OK"
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		v.status = "Invalid HTTP Response: " + strconv.Itoa(resp.StatusCode)
	}
	for k := range resp.Header {
		v.responseHeaders[k] = resp.Header.Get(k)
	}
}

func (d *dispatcher) pause(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.ctx.Done():
		return false
	}
}

func (d *dispatcher) headers(v *delivery) map[string]string {
	h := map[string]string{
		"Accept": "*/*", "Content-Type": "application/json", "User-Agent": "GitHub-Hookshot/7f0e1a2",
		"X-GitHub-Delivery": v.guid, "X-GitHub-Event": v.event, "X-GitHub-Hook-ID": strconv.FormatInt(v.appID, 10),
		"X-GitHub-Hook-Installation-Target-ID": strconv.FormatInt(v.appID, 10), "X-GitHub-Hook-Installation-Target-Type": "integration",
	}
	if v.secret != "" {
		h["X-Hub-Signature"] = "sha1=" + sign(sha1.New, v.secret, v.body)
		h["X-Hub-Signature-256"] = "sha256=" + sign(sha256.New, v.secret, v.body)
	}
	if version := d.sim.opts.Enterprise; version != "" {
		h["X-GitHub-Enterprise-Version"], h["X-GitHub-Enterprise-Host"] = version, "ghes.example"
	}
	return h
}

func sign(algorithm func() hash.Hash, secret string, body []byte) string {
	mac := hmac.New(algorithm, []byte(secret))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// redeliver queues a delivery once more: the same GUID and body, a new id.
func (d *dispatcher) redeliver(appID, id int64) bool {
	d.mu.Lock()
	old := d.find(appID, id)
	d.mu.Unlock()
	if old == nil {
		return false
	}
	again := &delivery{
		id: d.sim.nextBigID(), appID: old.appID, installID: old.installID, repoID: old.repoID, guid: old.guid, event: old.event, action: old.action,
		url: old.url, secret: old.secret, body: old.body, redelivery: true,
	}
	if a := d.sim.world.apps[appID]; a != nil {
		again.url, again.secret = a.hookURL, a.hookSecret
	}
	d.enqueue(again)
	return true
}

func (d *dispatcher) find(appID, id int64) *delivery {
	i := slices.IndexFunc(d.log, func(v *delivery) bool { return v.appID == appID && v.id == id })
	if i < 0 || d.forgotten(d.log[i]) {
		return nil
	}
	return d.log[i]
}

// forgotten: GitHub keeps deliveries for three days, Enterprise Server for seven.
func (d *dispatcher) forgotten(v *delivery) bool {
	keep := 3 * 24 * time.Hour
	if d.sim.opts.Enterprise != "" {
		keep = 7 * 24 * time.Hour
	}
	return d.sim.now().Sub(v.deliveredAt) > keep
}

// sent lists an App's deliveries, newest first.
func (d *dispatcher) sent(appID int64) []*delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*delivery
	for _, v := range slices.Backward(d.log) {
		if v.appID == appID && !d.forgotten(v) {
			list = append(list, v)
		}
	}
	return list
}

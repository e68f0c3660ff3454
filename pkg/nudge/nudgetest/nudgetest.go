// Package nudgetest gives tests a NATS server of their own, which they may stop
// and restart, and connections to it.
//
// Every server listens on a free loopback port and has gone when its test ends.
package nudgetest

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/nudge/localnats"
)

// patience bounds every wait: a loaded machine may be slow, a broken one is not waited for.
const patience = 30 * time.Second

// Server is a NATS server that ends with its test.
type Server struct {
	tb    testing.TB
	local *localnats.Server
	seeds map[string]string
}

// New starts a server that admits one password.
func New(tb testing.TB) *Server {
	tb.Helper()
	return start(tb, localnats.Options{}, nil)
}

// NewWithUsers starts a server with one NKey user a service and the permissions
// of deploy/nats/nats.conf.
func NewWithUsers(tb testing.TB) *Server {
	tb.Helper()
	seeds, public := map[string]string{}, map[string]string{}
	for _, service := range nudge.Services() {
		pair, err := nkeys.CreateUser()
		if err != nil {
			tb.Fatalf("make a key for %s: %v", service, err)
		}
		seed, err := pair.Seed()
		if err != nil {
			tb.Fatalf("read the seed of %s: %v", service, err)
		}
		seeds[service] = string(seed)
		if public[service], err = pair.PublicKey(); err != nil {
			tb.Fatalf("read the key of %s: %v", service, err)
		}
	}
	config, err := nudge.ServerConfig(func(service string) string { return public[service] })
	if err != nil {
		tb.Fatalf("write the server's configuration: %v", err)
	}
	return start(tb, localnats.Options{Config: config}, seeds)
}

func start(tb testing.TB, o localnats.Options, seeds map[string]string) *Server {
	tb.Helper()
	o.Dir = tb.TempDir()
	local, err := localnats.Start(context.Background(), o)
	if err != nil {
		tb.Fatalf("start nats: %v", err)
	}
	tb.Cleanup(local.Close)
	return &Server{tb: tb, local: local, seeds: seeds}
}

// URL is where clients connect.
func (s *Server) URL() string { return s.local.URL() }

// Config is how service reaches this server, with its own key when there are users.
func (s *Server) Config(service string) nudge.Config {
	return nudge.Config{URL: s.URL(), NKeySeed: s.seeds[service], Storage: "memory", WakeTimeout: 5 * time.Second}
}

// Stop takes NATS away until Restart.
func (s *Server) Stop() { s.local.Stop() }

// Restart brings NATS back on the same port. A memory stream is empty and gone.
func (s *Server) Restart() {
	s.tb.Helper()
	if err := s.local.Restart(context.Background()); err != nil {
		s.tb.Fatalf("restart nats: %v", err)
	}
}

// Connect returns a connected Bus of service that closes with the test.
func (s *Server) Connect(service string) *nudge.Bus {
	s.tb.Helper()
	bus := s.Dial(service)
	WaitConnected(s.tb, bus)
	return bus
}

// Dial returns a Bus of service that closes with the test and may not be connected yet.
func (s *Server) Dial(service string) *nudge.Bus {
	s.tb.Helper()
	bus, err := nudge.Connect(context.Background(), s.Config(service), nudge.Options{Name: service})
	if err != nil {
		s.tb.Fatalf("connect %s: %v", service, err)
	}
	s.tb.Cleanup(bus.Close)
	return bus
}

// WaitConnected returns when bus is connected, and fails the test when that takes too long.
func WaitConnected(tb testing.TB, bus *nudge.Bus) {
	tb.Helper()
	Eventually(tb, "the bus is connected", bus.Connected)
}

// Eventually polls until what is true, and fails the test when that takes too long.
func Eventually(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for !is() {
		if time.Now().After(deadline) {
			tb.Fatalf("waited %s in vain until %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

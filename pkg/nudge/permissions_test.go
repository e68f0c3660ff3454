package nudge_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/nudge/nudgetest"
)

var update = flag.Bool("update", false, "write deploy/nats/nats.conf from the table of permissions")

// Every service does with its own user all that it needs, and ingress, which
// faces the internet, can do nothing else.
func TestOneUserAService(t *testing.T) {
	t.Parallel()
	ns := nudgetest.NewWithUsers(t)
	subjects := map[string]nudge.Subject{
		"invalidator": nudge.Invalidate, "fanout": nudge.Fanout, "evaluator": nudge.Evaluate, "reconciler": nudge.Reconcile,
	}
	tables := map[string]*rows{}
	buses := map[string]*nudge.Bus{"ingress": ns.Connect("ingress"), "operator": ns.Connect("operator")}
	for service, subject := range subjects {
		tables[service] = &rows{}
		buses[service] = ns.Connect(service)
		stop := runWork(t, nudge.Work{Bus: buses[service], Subject: subject, Service: service, Poll: never, Step: tables[service].step})
		defer stop()
	}
	stop, err := buses["invalidator"].ServeInvalidate(t.Context(), 1, func(context.Context, nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
		return nudge.InvalidateReply{Outcome: nudge.OutcomeReset}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()

	for sender, targets := range map[string][]string{
		"ingress":     {"invalidator", "fanout", "reconciler"},
		"invalidator": {"evaluator", "invalidator"},
		"fanout":      {"invalidator", "fanout", "evaluator"},
		"evaluator":   {"invalidator", "evaluator"},
		"reconciler":  {"invalidator", "fanout", "evaluator", "reconciler"},
		"operator":    {"reconciler"},
	} {
		for _, target := range targets {
			before := tables[target].finished()
			tables[target].add(1)
			nudgetest.Eventually(t, sender+" wakes "+target, func() bool {
				if err := buses[sender].Wake(t.Context(), nudge.Wake{Subject: subjects[target]}); err != nil && !errors.Is(err, jetstream.ErrNoStreamResponse) {
					t.Errorf("%s wakes %s: %v", sender, target, err)
				}
				return tables[target].finished() > before
			})
		}
	}
	if got := askUntilServed(t, buses["ingress"], nudge.InvalidateRequest{}); got.Outcome != nudge.OutcomeReset {
		t.Errorf("the fast path answered %v", got.Outcome)
	}
}

func TestIngressCannotSpeakForOthersOrListen(t *testing.T) {
	t.Parallel()
	ns := nudgetest.NewWithUsers(t)
	// A consumer makes the stream, so that what ingress may not do is there to be done.
	stop := runWork(t, nudge.Work{Bus: ns.Connect("evaluator"), Subject: nudge.Evaluate, Service: "evaluator", Poll: never, Step: (&rows{}).step})
	defer stop()
	awaitStream(t, ns.Connect("invalidator"), nudge.Evaluate)

	denied := make(chan error, 16)
	nc := rawConn(t, ns.Config("ingress"), "_INBOX_ingress", denied)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		if err := nc.FlushTimeout(10 * time.Second); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-denied:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s was allowed", what)
		}
	}
	publish := func(subject string) {
		t.Helper()
		if err := nc.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		refused("publish on " + subject)
	}
	for _, subject := range []string{
		string(nudge.Evaluate),
		"countersign.v1.another",
		"$JS.API.STREAM.CREATE.COUNTERSIGN", "$JS.API.STREAM.DELETE.COUNTERSIGN", "$JS.API.STREAM.PURGE.COUNTERSIGN",
		"$JS.API.CONSUMER.MSG.NEXT.COUNTERSIGN.evaluator", "$JS.API.CONSUMER.CREATE.COUNTERSIGN.ingress.countersign.v1.evaluate",
		"$JS.API.CONSUMER.DELETE.COUNTERSIGN.evaluator",
		"_INBOX_evaluator.guess",
	} {
		publish(subject)
	}
	for _, subject := range []string{
		"countersign.v1.>", string(nudge.Invalidate), "countersign.v1.ask.invalidate", "_INBOX_evaluator.>", "_INBOX.>", ">",
	} {
		sub, err := nc.SubscribeSync(subject)
		if err != nil {
			t.Fatal(err)
		}
		refused("subscribe to " + subject)
		_ = sub.Unsubscribe()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := js.Consumer(ctx, nudge.StreamName, "evaluator"); err == nil {
		t.Error("ingress looked at a consumer")
	}
	// What it may do, it can.
	if _, err := js.Publish(t.Context(), string(nudge.Invalidate), nil); err != nil {
		t.Errorf("ingress cannot publish on its own subject: %v", err)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	ns := nudgetest.NewWithUsers(t)
	stranger, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := stranger.Seed()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, seed string }{{"no key", ""}, {"an unknown key", string(seed)}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			opts := []nats.Option{nats.Timeout(10 * time.Second)}
			if test.seed != "" {
				public, err := stranger.PublicKey()
				if err != nil {
					t.Fatal(err)
				}
				opts = append(opts, nats.Nkey(public, stranger.Sign))
			}
			nc, err := nats.Connect(ns.URL(), opts...)
			if err == nil {
				nc.Close()
				t.Fatal("admitted")
			}
			if !errors.Is(err, nats.ErrAuthorization) {
				t.Errorf("error %v, want a refusal", err)
			}
		})
	}
}

func TestPermissionsNameEveryServiceAndNoOther(t *testing.T) {
	t.Parallel()
	for _, service := range nudge.Services() {
		g, err := nudge.Permissions(service)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range slices.Concat(g.Publish, g.Subscribe) {
			if strings.ContainsAny(strings.TrimSuffix(s, ".>"), "*>") {
				t.Errorf("%s has the wildcard %q", service, s)
			}
		}
	}
	if _, err := nudge.Permissions("console"); err == nil {
		t.Error("a service that does not exist has permissions")
	}
}

const deployed = "../../deploy/nats/nats.conf"

// The example an operator starts from is the table, and nats-server reads it.
func TestDeployedConfigurationIsTheTable(t *testing.T) {
	want, err := deployedConfig()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(deployed, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(deployed)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Fatalf("%s is stale: go test ./pkg/nudge -run Deployed -update", deployed)
	}
	// Not parallel: nats-server reads the keys from the process's environment.
	keys := map[string]string{}
	for _, service := range nudge.Services() {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		keys[public] = service
		t.Setenv(keyVariable(service), public)
	}
	opts := &server.Options{}
	if err := opts.ProcessConfigString(string(got)); err != nil {
		t.Fatal(err)
	}
	if len(opts.Nkeys) != len(keys) {
		t.Fatalf("%d users, want %d", len(opts.Nkeys), len(keys))
	}
	for _, u := range opts.Nkeys {
		service, ok := keys[u.Nkey]
		if !ok {
			t.Fatalf("user %s is no service's", u.Nkey)
		}
		g, err := nudge.Permissions(service)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(u.Permissions.Publish.Allow, g.Publish) {
			t.Errorf("%s may publish %v, want %v", service, u.Permissions.Publish.Allow, g.Publish)
		}
	}
}

func keyVariable(service string) string {
	return "COUNTERSIGN_NKEY_" + strings.ToUpper(service)
}

func deployedConfig() (string, error) {
	users, err := nudge.ServerConfig(func(service string) string { return "$" + keyVariable(service) })
	return `# An example nats-server configuration for Countersign. Generated from the table
# of permissions in pkg/nudge (go test ./pkg/nudge -run Deployed -update).
#
# Make one key pair a service:
#   nk -gen user -pubout > ingress.nkey
# The first line is the seed: give it to that service alone, as the file that
# COUNTERSIGN_NATS_NKEY_SEED_FILE names. The second is the public key: give it to
# nats-server in the variable named below. The user "operator" is for the command line.

host: 127.0.0.1
port: 4222

# Nudges are hints; a few MiB of memory hold all there are.
jetstream {
  max_memory_store: 64MiB
  max_file_store: 64MiB
  store_dir: "/var/lib/nats"
}

# Across machines, add certificates: keys are never sent, row keys are.
# tls {
#   cert_file: "/etc/nats/tls.crt"
#   key_file: "/etc/nats/tls.key"
# }

` + users, err
}

// rawConn is a connection of a service's user that does what the package never would.
func rawConn(t *testing.T, cfg nudge.Config, inbox string, denied chan<- error) *nats.Conn {
	t.Helper()
	pair, err := nkeys.FromSeed([]byte(cfg.NKeySeed))
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(cfg.URL, nats.Nkey(public, pair.Sign), nats.CustomInboxPrefix(inbox),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case denied <- err:
			default:
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

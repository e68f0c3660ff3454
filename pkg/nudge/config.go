package nudge

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// Config is how a service reaches NATS. Embed it in the service's own config; daemon.Load reads it.
type Config struct {
	URL string `env:"COUNTERSIGN_NATS_URL" desc:"NATS server, for example nats://127.0.0.1:4222 or tls://nats.example:4222; several separated by commas. Empty: no nudges, the service lives on its poll of Postgres and the fast path is unavailable."`
	// Credentials and NKeySeed are contents, read from a file by the _FILE form.
	Credentials string        `env:"COUNTERSIGN_NATS_CREDENTIALS" secret:"true" desc:"Contents of this service's NATS credentials file (user JWT and seed). Exclusive with the NKey seed."`
	NKeySeed    string        `env:"COUNTERSIGN_NATS_NKEY_SEED" secret:"true" desc:"NKey seed of this service's own NATS user (SU…)."`
	CAFile      string        `env:"COUNTERSIGN_NATS_CA_FILE" desc:"PEM file of the authority that signed the NATS server's certificate. Empty: the system's."`
	Storage     string        `env:"COUNTERSIGN_NATS_STORAGE" envDefault:"memory" desc:"Where a stream this service has to create keeps nudges: memory or file. Losing them costs one poll interval."`
	WakeTimeout time.Duration `env:"COUNTERSIGN_NATS_WAKE_TIMEOUT" envDefault:"500ms" desc:"Longest a committed transaction waits for its nudge to be taken; then the poll finds the row."`
}

// Options are what a process gives its connection.
type Options struct {
	// Name is the service: the connection's name, and the prefix of its inboxes, which its permissions name.
	Name string
	// Log receives connection changes; nil discards them.
	Log *slog.Logger
	// Metrics receives the countersign_nudge_* metrics; nil keeps them private.
	Metrics prometheus.Registerer
	// Tracer makes a span of each wake and each request; nil makes none, and trace context still travels.
	Tracer trace.Tracer
}

package daemon

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// defaultOperatorListen is the default below, for a health check, which loads no config.
const defaultOperatorListen = "127.0.0.1:9090"

// Config is what every process of Countersign takes, whatever service it runs.
// Main loads it beside the service's own config.
type Config struct {
	OperatorListen string        `env:"COUNTERSIGN_OPERATOR_LISTEN" envDefault:"127.0.0.1:9090" desc:"Address of health, metrics and pprof. Never expose it to the internet: it has no authentication. Empty: not served."`
	ShutdownGrace  time.Duration `env:"COUNTERSIGN_SHUTDOWN_GRACE" envDefault:"25s" desc:"Longest a process that was told to stop finishes what it has begun. Keep it below the supervisor's kill delay."`
	LogLevel       string        `env:"COUNTERSIGN_LOG_LEVEL" envDefault:"info" desc:"Least severe log line written: debug, info, warn or error."`
	OTLPEndpoint   string        `env:"COUNTERSIGN_OTLP_ENDPOINT" desc:"Base URL of an OpenTelemetry collector speaking OTLP over HTTP, for example http://127.0.0.1:4318. Empty: no spans are exported; trace context still travels."`
	Environment    string        `env:"COUNTERSIGN_ENVIRONMENT" envDefault:"production" desc:"Name of this installation in the runtime identity and on spans."`
	Replica        string        `env:"COUNTERSIGN_REPLICA" desc:"Name of this process among its service's replicas, in logs and leases. Empty: host name and process id."`
}

// Validate refuses values that parse and cannot work.
func (c Config) Validate() error {
	var errs []error
	if c.OperatorListen != "" {
		if _, _, err := net.SplitHostPort(c.OperatorListen); err != nil {
			errs = append(errs, fmt.Errorf("COUNTERSIGN_OPERATOR_LISTEN: %q is not host:port; write for example 127.0.0.1:9090", c.OperatorListen))
		}
	}
	if c.ShutdownGrace < time.Second || c.ShutdownGrace > 10*time.Minute {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_SHUTDOWN_GRACE: %s is outside 1s to 10m; 25s suits a supervisor that kills after 30s", c.ShutdownGrace))
	}
	if _, err := parseLevel(c.LogLevel); err != nil {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_LOG_LEVEL: %w", err))
	}
	if c.OTLPEndpoint != "" {
		if err := checkEndpoint(c.OTLPEndpoint); err != nil {
			errs = append(errs, fmt.Errorf("COUNTERSIGN_OTLP_ENDPOINT: %w", err))
		}
	}
	return errors.Join(errs...)
}

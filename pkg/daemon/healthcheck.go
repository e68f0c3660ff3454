package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// healthcheckArg as the first argument makes a service's binary ask the running one whether it is ready, and exit: an
// image without a shell has nothing else that a container engine could run as its health check.
const healthcheckArg = "healthcheck"

// healthcheckTimeout is above checkTimeout, so that the answer that names the hung dependency still arrives.
const healthcheckTimeout = checkTimeout + 2*time.Second

// healthcheck is `SERVICE healthcheck`: ExitClean when the process at COUNTERSIGN_OPERATOR_LISTEN of this environment is
// ready or degraded, ExitFailed when it is not or does not answer, ExitUsage when there is nothing to ask. It prints the
// answer, which names what is missing. Only the environment is read: an engine's health check has the container's
// variables and not the arguments of its process.
func healthcheck(p process) int {
	address, given := environment(p.environ)["COUNTERSIGN_OPERATOR_LISTEN"]
	if !given || address == "" {
		address = defaultOperatorListen
	}
	ctx, cancel := context.WithTimeout(context.Background(), healthcheckTimeout)
	defer cancel()
	code, answer, err := CheckHealth(ctx, address)
	if err != nil {
		fmt.Fprintln(p.stderr, err)
		var bad *net.AddrError
		if errors.As(err, &bad) {
			return ExitUsage
		}
		return ExitFailed
	}
	_, _ = p.stdout.Write(answer)
	if code != http.StatusOK {
		return ExitFailed
	}
	return ExitClean
}

// CheckHealth asks /health/ready of the operator address that a process listens on: of this machine where address names
// every interface. It returns the status and at most 64 KiB of the answer. It changes nothing.
func CheckHealth(ctx context.Context, address string) (code int, answer []byte, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, nil, fmt.Errorf("check health: %q is not host:port: %w", address, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/health/ready", nil)
	if err != nil {
		return 0, nil, fmt.Errorf("check health of %s: %w", address, err)
	}
	// No proxy of the environment: the address is this machine's.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("check health of %s: %w", address, err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return 0, nil, fmt.Errorf("check health of %s: %w", address, err)
	}
	return response.StatusCode, answer, nil
}

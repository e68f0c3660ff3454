package daemon

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// documentation is where GET / sends a reader.
const documentation = "https://github.com/countersign/countersign/tree/main/docs"

// OperatorHandler serves health, metrics, pprof and the identity of the services
// given: one in production, all of them in a one-process Countersign. It has no
// authentication and belongs on an address only operators reach (RG-479).
func OperatorHandler(rts ...*Runtime) http.Handler {
	o := operator{rts: rts}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", o.name)
	mux.HandleFunc("GET /health/live", o.live)
	mux.HandleFunc("GET /health/ready", o.ready)
	mux.HandleFunc("GET /api/runtime-identity", o.identity)
	mux.Handle("GET /metrics", promhttp.HandlerFor(together(rts), promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	// pprof's cmdline stays away: an argument may be a secret (I10).
	mux.HandleFunc("GET /debug/pprof/cmdline", http.NotFound)
	return loopbackHostsOnly(mux)
}

type operator struct{ rts []*Runtime }

func (o operator) service() string {
	names := make([]string, len(o.rts))
	for i, rt := range o.rts {
		names[i] = rt.Service
	}
	return strings.Join(names, " ")
}

// name answers GET / (RG-470).
func (o operator) name(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, struct {
		Name          string `json:"name"`
		Service       string `json:"service"`
		Version       string `json:"version"`
		Documentation string `json:"documentation"`
	}{"Countersign", o.service(), CurrentVersion().Version, documentation})
}

type healthAnswer struct {
	Status  string    `json:"status"`
	Service string    `json:"service"`
	Checks  []Finding `json:"checks"`
}

func (o operator) live(w http.ResponseWriter, _ *http.Request) {
	var all []Finding
	code, status := http.StatusOK, "live"
	for _, rt := range o.rts {
		findings, ok := rt.Health.Live()
		all = append(all, o.qualify(rt, findings)...)
		if !ok {
			code, status = http.StatusServiceUnavailable, "dead"
		}
	}
	answer(w, code, healthAnswer{status, o.service(), all})
}

func (o operator) ready(w http.ResponseWriter, r *http.Request) {
	var all []Finding
	for _, rt := range o.rts {
		findings, _ := rt.Health.Ready(r.Context())
		all = append(all, o.qualify(rt, findings)...)
	}
	code, status := http.StatusOK, "ready"
	switch worstOf(all) {
	case StatusFailed:
		code, status = http.StatusServiceUnavailable, "not ready"
	case StatusDegraded:
		status = "degraded"
	}
	answer(w, code, healthAnswer{status, o.service(), all})
}

// qualify prefixes a finding with its service when there are several.
func (o operator) qualify(rt *Runtime, findings []Finding) []Finding {
	if len(o.rts) > 1 {
		for i := range findings {
			findings[i].Name = rt.Service + "/" + findings[i].Name
		}
	}
	return findings
}

type identityAnswer struct {
	SchemaVersion int    `json:"schema_version"`
	Service       string `json:"service"`
	Replica       string `json:"replica"`
	Environment   string `json:"environment"`
	Version
	Identity
}

// identity answers what the process is configured to be (RG-475). With several
// services the answer is a list.
func (o operator) identity(w http.ResponseWriter, _ *http.Request) {
	all := make([]identityAnswer, len(o.rts))
	for i, rt := range o.rts {
		rt.mu.Lock()
		all[i] = identityAnswer{1, rt.Service, rt.Replica, rt.Config.Environment, rt.Version, rt.identity}
		rt.mu.Unlock()
	}
	if len(all) == 1 {
		answer(w, http.StatusOK, all[0])
		return
	}
	answer(w, http.StatusOK, all)
}

func answer(w http.ResponseWriter, code int, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	// The status is sent: a reader that went away has nobody left to tell.
	_ = json.NewEncoder(w).Encode(v)
}

// loopbackHostsOnly refuses, on a loopback listener, requests for any other
// host: a page in an operator's browser can name 127.0.0.1 by a domain of its
// own and would otherwise read this surface.
func loopbackHostsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if local != nil && isLoopback(local.String()) && !isLoopback(r.Host) {
			http.Error(w, "this address answers to 127.0.0.1 and localhost only", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.Trim(host, "[]")
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

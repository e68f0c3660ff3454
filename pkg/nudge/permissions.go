package nudge

import (
	"fmt"
	"strings"
)

// Grant is what one service's NATS user may say and hear.
type Grant struct {
	Service   string
	Publish   []string
	Subscribe []string
	// Responds allows one answer to each request received.
	Responds bool
}

// Services lists the services that have a NATS user, in the order work flows.
func Services() []string {
	return []string{"ingress", "invalidator", "fanout", "evaluator", "reconciler", "operator"}
}

// consumes is the subject whose durable consumer a service reads.
var consumes = map[string]Subject{
	"invalidator": Invalidate, "fanout": Fanout, "evaluator": Evaluate, "reconciler": Reconcile,
}

// wakes is whom a service may wake: those whose rows it may write.
// The operator is the command line: it asks the reconciler to look now.
var wakes = map[string][]Subject{
	"ingress":     {Invalidate, Fanout, Reconcile},
	"invalidator": {Invalidate, Evaluate},
	"fanout":      {Invalidate, Fanout, Evaluate},
	"evaluator":   {Invalidate, Evaluate},
	"reconciler":  {Invalidate, Fanout, Evaluate, Reconcile},
	"operator":    {Reconcile},
}

// Permissions is the table deploy/nats/nats.conf is generated from: what a
// service may publish and subscribe to, and nothing else. Each service has an
// inbox prefix of its own, so none reads another's answers.
func Permissions(service string) (Grant, error) {
	targets, ok := wakes[service]
	if !ok {
		return Grant{}, fmt.Errorf("permissions: no service %q; the services are %s", service, strings.Join(Services(), ", "))
	}
	g := Grant{Service: service, Subscribe: []string{inboxPrefix(service) + ".>"}}
	for _, s := range targets {
		g.Publish = append(g.Publish, string(s))
	}
	if service == "ingress" {
		g.Publish = append(g.Publish, askInvalidate)
	}
	if service == askGroup {
		g.Subscribe = append(g.Subscribe, askInvalidate+" "+askGroup)
		g.Responds = true
	}
	if subject, ok := consumes[service]; ok {
		g.Publish = append(g.Publish,
			// Whoever consumes creates the stream when it is missing.
			"$JS.API.STREAM.CREATE."+StreamName,
			"$JS.API.STREAM.INFO."+StreamName,
			fmt.Sprintf("$JS.API.CONSUMER.CREATE.%s.%s.%s", StreamName, service, subject),
			fmt.Sprintf("$JS.API.CONSUMER.INFO.%s.%s", StreamName, service),
			fmt.Sprintf("$JS.API.CONSUMER.MSG.NEXT.%s.%s", StreamName, service),
		)
	}
	return g, nil
}

// ServerConfig writes the authorization of a nats-server: one NKey user a
// service with its subject permissions. user gives each service's public key, or
// a $VARIABLE that nats-server reads from its environment.
func ServerConfig(user func(service string) string) (string, error) {
	var b strings.Builder
	b.WriteString("authorization {\n  users = [\n")
	for _, service := range Services() {
		g, err := Permissions(service)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "    {\n      # %s\n      nkey: %s\n      permissions {\n", service, user(service))
		fmt.Fprintf(&b, "        publish { allow: %s }\n", quoteList(g.Publish))
		fmt.Fprintf(&b, "        subscribe { allow: %s }\n", quoteList(g.Subscribe))
		if g.Responds {
			b.WriteString("        allow_responses { max: 1, expires: \"10s\" }\n")
		}
		b.WriteString("      }\n    }\n")
	}
	b.WriteString("  ]\n}\n")
	return b.String(), nil
}

func quoteList(items []string) string {
	quoted := make([]string, len(items))
	for i, s := range items {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// inboxPrefix keeps each service's answers to itself.
func inboxPrefix(service string) string { return "_INBOX_" + service }

package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
)

// webhookLines says where webhooks go and, by GitHub's own log, whether they arrive there.
func (g doctorGitHub) webhookLines(ctx context.Context) []doctorLine {
	const check = "webhooks"
	hook, err := g.app.HookConfig(ctx)
	if err != nil {
		return fail(check, err, "")
	}
	if hook.URL == "" {
		return []doctorLine{{Result: doctorFail, Check: check, Says: "the App has no webhook address: changes are seen by the reconciler only, late", Mend: "set it on the App's settings page to where GitHub reaches ingress, ending in /webhooks/github"}}
	}
	lines := hookLines(hook)
	log, _, err := g.app.Deliveries(ctx, "")
	if err != nil {
		return append(lines, fail("webhook deliveries", err, "")...)
	}
	return append(lines, deliveryLine(log, time.Now()))
}

func hookLines(hook ghclient.HookConfig) []doctorLine {
	const check = "webhooks"
	var lines []doctorLine
	add := func(result, says, mend string) {
		lines = append(lines, doctorLine{Result: result, Check: check, Says: says, Mend: mend})
	}
	if hook.ContentType != "json" {
		add(doctorFail, fmt.Sprintf("they are sent as %q, which is refused", hook.ContentType), "choose application/json on the App's settings page")
	}
	if !hook.Signed {
		add(doctorFail, "they are not signed, and unsigned ones are refused", "set a webhook secret on the App's settings page, and the same in COUNTERSIGN_WEBHOOK_SECRET")
	}
	if hook.InsecureSSL {
		add(doctorWarn, "GitHub does not check the receiver's certificate", "switch SSL verification on, on the App's settings page")
	}
	if u, err := url.Parse(hook.URL); err == nil && u.Scheme != "https" && !loopbackName(u.Hostname()) {
		add(doctorWarn, "they are sent without TLS to "+hook.URL, "use https: payloads hold private metadata")
	}
	if len(lines) == 0 {
		add(doctorOK, "sent to "+hook.URL+", signed, as JSON", "")
	}
	return lines
}

func loopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// deliveryLine judges the newest page of the log. What it means depends on the answer GitHub got.
func deliveryLine(log []ghclient.Delivery, now time.Time) doctorLine {
	const check = "webhook deliveries"
	if len(log) == 0 {
		return doctorLine{Result: doctorWarn, Check: check, Says: "GitHub has sent none in the days that its log covers, so nothing tells whether it reaches us", Mend: "install the App, or change a label, and look again"}
	}
	failed, last := 0, log[0]
	for _, d := range log {
		if !d.Succeeded() {
			failed++
		}
	}
	when := now.Sub(last.DeliveredAt).Round(time.Second)
	counted := fmt.Sprintf("%d of the last %d failed; the newest (%s, %s ago)", failed, len(log), last.Event, when)
	if last.Succeeded() {
		if failed > 0 {
			return doctorLine{Result: doctorWarn, Check: check, Says: counted + " arrived", Mend: "the reconciler asks for what failed again; see countersign_reconciler_gap_open_rows"}
		}
		return doctorLine{Result: doctorOK, Check: check, Says: fmt.Sprintf("the last %d arrived, the newest %s ago", len(log), when)}
	}
	said, mend := fmt.Sprintf("was answered %d", last.StatusCode), "look at ingress's log; the address has to end in /webhooks/github"
	switch {
	case last.StatusCode == 0:
		said, mend = "got no answer ("+last.Status+")", "GitHub cannot reach the address: look at DNS, TLS, the firewall and the route to ingress"
	case last.StatusCode == 401:
		mend = "the webhook secret of the App and COUNTERSIGN_WEBHOOK_SECRET differ"
	case last.StatusCode == 404:
		mend = "something else answers there: the address has to end in /webhooks/github and lead to ingress"
	case last.StatusCode >= 500:
		mend = "ingress could not store it: look at its readiness and the database"
	}
	return doctorLine{Result: doctorFail, Check: check, Says: counted + " " + said, Mend: mend}
}

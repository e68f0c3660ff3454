package dashboards

// runbook is where most panels send a reader.
const runbook = "see docs/operations.md, "

func overview() Dashboard {
	return Dashboard{UID: "countersign-overview", Title: "Overview", About: "Is the gate keeping its promise?", Rows: []Row{
		{"Now", []Panel{
			{Title: "Alerts", Kind: Firing, Width: 8, Normal: "nothing fires.", Do: "follow the alert's link to docs/operations.md."},
			number("Replicas that answer", "as many as you run.", "look at the missing one's last log lines; "+runbook+"CountersignServiceDown.", Count,
				q(`sum by (job) (up{job=~"ingress|invalidator|fanout|evaluator|reconciler|console"})`, "{{job}}")).wide(8),
			number("Oldest work", "below a few seconds.", "open Queues: which queue, which lane.", Seconds, q("countersign:queue_oldest_seconds", "{{queue}}")).alertAt(60).wide(8),
			number("Readiness", "1 everywhere.", "GET /health/ready of the service says what is missing.", Count, q("min by (check) (countersign_health_passed)", "{{check}}")).wide(8),
			number("Heads not proved unfinished", "0.", "a page: "+runbook+"CountersignRevocationUnproved.", Count,
				q(`sum(increase(countersign_checkrun_proofs_total{how="unproved"}[1h]))`, "last hour")).alertAt(1).wide(4),
			number("Checks that differ", "0.", "an incident: "+runbook+"CountersignDrift.", Count, q("sum(increase(countersign_reconciler_drift_total[1h]))", "last hour")).alertAt(1).wide(4),
			number("Last complete scan", "below 600 s.", runbook+"CountersignReconcileStale.", Seconds, q("max(countersign_reconciler_last_success_age_seconds)", "ago")).alertAt(1800).wide(4),
			number("Missed webhooks", "0.", runbook+"CountersignDeliveriesMissed.", Count, q("max(countersign_reconciler_gap_open_rows)", "open")).alertAt(1).wide(4),
		}},
		{"Objectives, 30 days", []Panel{
			lines("Error budget: burn over an hour", "below 1: at 1 the budget lasts exactly 30 days.", "at 14 it lasts two days, and a page follows; find the slow step below.", Count,
				q("countersign:slo_burn:rate1h", "{{slo}}")).alertAt(14.4),
			lines("Error budget: burn over six hours", "below 1.", "at 6 a page follows.", Count, q("countersign:slo_burn:rate6h", "{{slo}}")).alertAt(6),
			lines("Error budget: burn over three days", "below 1.", "above 1 a ticket follows: something is slow for good; more replicas, a nearer database, fewer rechecks.", Count,
				q("countersign:slo_burn:rate3d", "{{slo}}")).alertAt(1),
		}},
		{"From the webhook to the check", []Panel{
			lines("Webhook → revoked", "well below 5 s at p99.", "a dot is one webhook: follow it to its trace. Late everywhere: GitHub or the database; late in one lane: Queues.", Seconds,
				traced("99", "countersign_invalidator_revocation_seconds", "lane"), within("50", "countersign_invalidator_revocation_seconds", "")).alertAt(5),
			lines("Webhook → settled", "below 30 s at p99 for what people do; fanout and reconcile may take minutes.", "follow a dot to its trace: snapshot slow means GitHub, wait long means too few workers.", Seconds,
				traced("99", "countersign_evaluator_lag_seconds", "lane"), within("50", "countersign_evaluator_lag_seconds", "")).alertAt(30),
			lines("Webhooks by what became of them", "accepted, duplicate and ignored.", "anything else: open Ingress.", PerSecond, rate("countersign_ingress_deliveries_total", "result")),
			lines("Decisions", "the mix of your repositories; none at all during office hours is not normal.", "no decisions but webhooks: Evaluator, fences and pauses.", PerSecond,
				rate("countersign_evaluator_publications_total", "result")),
			lines("How work was found", "nearly all by nudge.", "a rising share of poll means that NATS is ill: "+runbook+"CountersignPollingForWork.", PerSecond,
				rate("countersign_work_found_total", "via")),
			lines("Publications that a fence refused", "a few while people push.", runbook+"CountersignFenceRefusals.", Share, quiet("countersign:fence_refusals:ratio15m", "share")).alertAt(0.2),
		}},
	}}
}

func queues() Dashboard {
	return Dashboard{UID: "countersign-queues", Title: "Queues", About: "What waits, for how long, and how often was it tried?", Rows: []Row{
		{"What waits", []Panel{
			lines("Oldest work", "a saw-tooth of seconds.", "a straight line upwards is stuck: "+runbook+"CountersignRevocationStuck, AuthorityStuck or EvaluationStuck.", Seconds,
				q("countersign:queue_oldest_seconds", "{{queue}}")).alertAt(60),
			lines("Heads that wait for their revocation", "near nothing; a storm of an authority change fills fanout.", "due rises: more invalidators or more workers. waiting rises: GitHub's budget.", Count,
				q(`sum by (lane, state) (countersign:queue_rows{queue="revocation"})`, "{{lane}} {{state}}")),
			lines("Evaluations that wait", "interactive near nothing.", "due rises: more evaluators. waiting rises: GitHub's budget, or authority work is pending.", Count,
				q(`sum by (lane, state) (countersign:queue_rows{queue="evaluation"})`, "{{lane}} {{state}}")),
			lines("Authority changes that wait", "none, or one for seconds.", "nothing that they cover is published meanwhile: "+runbook+"CountersignAuthorityStuck.", Count,
				q(`sum by (state) (countersign:queue_rows{queue="authority"})`, "{{state}}")),
			lines("Parked", "what is parked belongs to installations and repositories that are gone.", "`countersign queue` names them; `countersign queue purge` removes an installation's.", Count,
				q(`sum by (queue) (countersign:queue_rows{state="parked"})`, "{{queue}}")),
			lines("Steps that failed", "now and then one.", "the log line `work failed` has the error; "+runbook+"CountersignWorkFailing.", PerSecond, quiet("sum by (service) (rate(countersign_work_failures_total[$__rate_interval]))", "{{service}}")),
		}},
		{"How long and how often", []Panel{
			lines("Wait before a revocation", "below a second for interactive.", "more workers (COUNTERSIGN_WORKER_CONCURRENCY) or replicas.", Seconds, within("95", "countersign_invalidator_queue_wait_seconds", "lane")),
			lines("Wait before an evaluation", "a second or two for interactive: the revocation comes first.", "more workers or replicas.", Seconds, within("95", "countersign_evaluator_queue_wait_seconds", "lane")),
			lines("Wait before a fan-out", "below a second.", "a storm is split; it ends by itself.", Seconds, within("95", "countersign_fanout_queue_wait_seconds", "scope")),
			lines("Attempts of a revocation", "1.", "more: the log line of the head has the last error.", Count, within("95", "countersign_invalidator_queue_attempts", "lane")),
			lines("Attempts of an evaluation", "1 or 2.", "more: the log line of the pull request has the last error.", Count, within("95", "countersign_evaluator_queue_attempts", "lane")),
			lines("Leases lost", "none, but for killed processes.", runbook+"CountersignLeasesLost.", Count, q("countersign:leases_lost:increase30m", "{{service}}")).alertAt(5),
		}},
		{"Wake-ups", []Panel{
			lines("Share of work found by nudge", "above 0.9.", runbook+"CountersignPollingForWork.", Share, quiet("countersign:work_found_by_nudge:ratio15m", "{{service}}")),
			lines("Wake-ups not yet taken", "near nothing.", runbook+"CountersignConsumerLag.", Count, q("max by (subject) (countersign_nudge_consumer_pending_messages)", "{{subject}}")).alertAt(1000),
			lines("Delay of a wake-up", "milliseconds.", "seconds: NATS or the network, or two clocks that differ.", Seconds, within("95", "countersign_nudge_delay_seconds", "subject")),
		}},
	}}
}

func github() Dashboard {
	return Dashboard{UID: "countersign-github", Title: "GitHub budget", About: "Does GitHub push back, and what do we ask it?", Rows: []Row{
		{"Budget", []Panel{
			lines("Requests left in this hour", "above a tenth of the limit at all times; it is the installation with the fewest.", "revocations keep the last of it; "+runbook+"CountersignBudgetLow.", Count,
				q("min by (resource) (countersign_github_budget_remaining)", "{{resource}}")),
			lines("Installations that are left alone", "0.", "GitHub's delay is kept; it ends by itself.", Count, q("max(countersign_github_paused_installations)", "paused")).alertAt(1),
			lines("Answers that asked to wait", "none.", "primary: "+runbook+"CountersignBudgetExhausted. secondary: CountersignGitHubPushesBack.", PerSecond, rate("countersign_github_pauses_total", "kind")),
		}},
		{"Requests", []Panel{
			lines("Requests by outcome", "ok and not_modified.", "unavailable or unknown_outcome: GitHub's status page. unauthorized: the App's key. forbidden: permissions, `countersign doctor`.", PerSecond,
				rate("countersign_github_requests_total", "outcome")),
			lines("Requests by operation", "reads of evidence and check runs.", "one that rises alone tells what costs the budget.", PerSecond, rate("countersign_github_requests_total", "operation")),
			lines("Share that fails", "below one in a hundred.", runbook+"CountersignGitHubFailing.", Share, q("countersign:github_failures:ratio_rate5m", "failed")).alertAt(0.5),
			lines("Latency", "below a second at p95.", "slow everywhere: GitHub or the way there.", Seconds, within("95", "countersign_github_request_duration_seconds", "operation")).wide(12),
			lines("Wait for a slot", "near nothing for revocation.", "COUNTERSIGN_GITHUB_MAX_IN_FLIGHT is the bound of a process; more replicas have more.", Seconds,
				within("95", "countersign_github_lane_wait_seconds", "lane")).wide(12),
		}},
	}}
}

package dashboards

// process is the row that every service has.
func process(job string) Row {
	return Row{"The process", []Panel{
		lines("Memory", "flat, below 100 MB.", "a climb over days is a leak: take a heap profile at the operator address, /debug/pprof/heap.", Bytes,
			q(`process_resident_memory_bytes{job="`+job+`"}`, "{{instance}}")).wide(6),
		lines("Processor", "well below one core.", "a replica at its limit: add one.", Count, q(`rate(process_cpu_seconds_total{job="`+job+`"}[$__rate_interval])`, "{{instance}}")).wide(6),
		lines("Goroutines", "flat.", "a climb is a leak: /debug/pprof/goroutine.", Count, q(`go_goroutines{job="`+job+`"}`, "{{instance}}")).wide(6),
		lines("Readiness", "1.", "GET /health/ready says what is missing.", Count, q(`min by (check) (countersign_health_passed{job="`+job+`"})`, "{{check}}")).wide(6),
		lines("Connections to PostgreSQL", "used far below the limit.", "used at the limit: COUNTERSIGN_DATABASE_MAX_CONNS, or statements that are slow.", Count,
			q(`sum by (pool, state) (countersign_store_connections{job="`+job+`"})`, "{{pool}} {{state}}"),
			q(`sum by (pool) (countersign_store_connections_limit{job="`+job+`"})`, "{{pool}} limit")).wide(12),
		lines("Connections waited for", "a few.", "cancelled: "+runbook+"CountersignPoolExhausted.", PerSecond,
			q(`sum by (pool, result) (rate(countersign_store_acquires_total{job="`+job+`",result!="at_once"}[$__rate_interval]))`, "{{pool}} {{result}}")).wide(12),
	}}
}

// optional declares that nothing of a row has data where its service does not run.
func optional(r Row) Row {
	for i := range r.Panels {
		for j := range r.Panels[i].Queries {
			r.Panels[i].Queries[j].Quiet = true
		}
	}
	return r
}

func service(job, title, about string, rows ...Row) Dashboard {
	return Dashboard{UID: "countersign-" + job, Title: title, About: about, Rows: append(rows, process(job))}
}

func ingress() Dashboard {
	return service("ingress", "Ingress", "Are webhooks taken, and how fast?", Row{"Requests", []Panel{
		lines("Rate by result", "accepted, duplicate, ignored.", "store_failed: PostgreSQL. limited: more replicas, or a sender in bulk. bad_signature: "+runbook+"CountersignSignaturesRefused.", PerSecond,
			rate("countersign_ingress_deliveries_total", "result")),
		lines("Errors", "0.", runbook+"CountersignIntakeBurnFast.", Share, quiet("countersign:slo_errors:ratio_rate5m{slo=\"intake\"}", "share")).alertAt(0.001),
		lines("Duration", "below a second at p99; GitHub gives up after 10 s.", "a dot leads to its trace: the commit or the fast path is slow.", Seconds,
			traced("99", "countersign_ingress_request_duration_seconds", ""), within("50", "countersign_ingress_request_duration_seconds", "")).alertAt(10),
		lines("Rate by event", "what the App is subscribed to.", "other: the App is subscribed to more than it needs.", PerSecond, rate("countersign_ingress_deliveries_total", "event")),
		lines("In flight", "a handful.", "near COUNTERSIGN_INGRESS_MAX_IN_FLIGHT: requests are refused with 429.", Count, q("sum(countersign_ingress_in_flight_requests)", "requests")),
		lines("Body", "tens of kilobytes.", "megabytes: pushes with very many commits; they are bounded.", Bytes, within("95", "countersign_ingress_body_bytes", "")),
	}}, Row{"Commit and fast path", []Panel{
		lines("Commit", "below 50 ms at p95.", "slow: the database's disk, or its locks.", Seconds, within("95", "countersign_ingress_commit_duration_seconds", "")).wide(6),
		lines("Deliveries in one commit", "1, and more under load.", "nothing: sharing is what carries a peak.", Count, within("95", "countersign_ingress_commit_deliveries", "")).wide(6),
		lines("Commits spoiled", "none.", "the log names the delivery that was refused.", Count, q("sum(increase(countersign_ingress_commits_spoiled_total[1h]))", "last hour")).wide(6),
		lines("Fast path", "reset and nothing.", "unavailable: NATS or no invalidator. The durable pass resets in any case.", PerSecond, rate("countersign_ingress_fast_path_total", "result")).wide(6),
		lines("Wait for the fast path", "below a second.", "timeouts: the invalidator is busy, or GitHub slow.", Seconds, within("95", "countersign_ingress_fast_path_duration_seconds", "")).wide(12),
		lines("Wake-ups sent", "sent.", "unavailable, timeout: NATS. Work is found by polling.", PerSecond, rate("countersign_nudge_wakes_total", "result")).wide(12),
	}})
}

func invalidator() Dashboard {
	return service("invalidator", "Invalidator", "Are old results revoked, and how fast?", Row{"Revocations", []Panel{
		lines("Webhook → revoked", "well below 5 s at p99.", "a dot leads to its trace.", Seconds, traced("99", "countersign_invalidator_revocation_seconds", "lane")).alertAt(5),
		lines("By result", "completed; superseded while people push.", "failed: the log. rate_limited: GitHub budget. parked: the target is gone.", PerSecond, rate("countersign_invalidator_invalidations_total", "result")),
		lines("Fast resets", "reset and nothing.", "failed: GitHub, or the guard was held.", PerSecond, rate("countersign_invalidator_fast_resets_total", "result")),
		lines("How heads were proved unfinished", "known, read, reset, created, none.", "replaced often: GitHub refuses to set runs back. unproved: a page. failed: GitHub or the database.", PerSecond,
			rate("countersign_checkrun_proofs_total", "how")),
		lines("Writes of check runs", "ok.", "error: outcomes are on GitHub budget.", PerSecond,
			q("sum by (operation, outcome) (rate(countersign_checkrun_writes_total[$__rate_interval]))", "{{operation}} {{outcome}}")),
		lines("Heads that wait", "near nothing.", "open Queues.", Count, q(`sum by (lane) (countersign:queue_rows{queue="revocation"})`, "{{lane}}")),
	}})
}

func fanout() Dashboard {
	return service("fanout", "Fan-out", "Do changes of teams, permissions, CODEOWNERS and policies reach their pull requests?", Row{"Authority changes", []Panel{
		lines("Oldest change", "seconds.", runbook+"CountersignAuthorityStuck.", Seconds, q("max(countersign_fanout_oldest_authority_age_seconds)", "age")).alertAt(600),
		lines("Passes", "completed; superseded in a storm.", "failed: the log. parked: the target is gone.", PerSecond,
			q("sum by (scope, result) (rate(countersign_fanout_passes_total[$__rate_interval]))", "{{scope}} {{result}}")),
		lines("Duration of a pass", "seconds for a repository.", "minutes for an installation of thousands of pull requests are normal.", Seconds, within("95", "countersign_fanout_pass_seconds", "scope")),
		lines("Pull requests considered", "kept is what a push to a base branch did not touch.", "nothing.", PerSecond, rate("countersign_fanout_pulls_considered_total", "why")),
		lines("Pull requests queued", "bursts after a change.", "a constant stream: who changes teams or policies that often?", PerSecond,
			q("sum(rate(countersign_fanout_pulls_queued_total[$__rate_interval]))", "pull requests"), q("sum(rate(countersign_fanout_repositories_queued_total[$__rate_interval]))", "repositories")),
		lines("Changes by state", "none, or one for seconds.", "parked: `countersign queue`.", Count, q("max by (state) (countersign_fanout_authority_rows)", "{{state}}")),
	}})
}

func evaluator() Dashboard {
	return service("evaluator", "Evaluator", "Are decisions made, and do they get through the fences?", Row{"Decisions", []Panel{
		lines("Webhook → settled", "below 30 s at p99 for interactive.", "a dot leads to its trace: which step is slow?", Seconds, traced("99", "countersign_evaluator_lag_seconds", "lane")).alertAt(30),
		lines("Claims by result", "completed; superseded and deferred while people push.", "failed: the log. rate_limited: GitHub budget.", PerSecond, rate("countersign_evaluator_evaluations_total", "result")),
		lines("Decisions by conclusion", "the mix of your repositories.", "all failure at once: a policy or CODEOWNERS that broke; `countersign policy diff` shows what it turned.", PerSecond,
			rate("countersign_evaluator_publications_total", "result")),
		lines("Publications refused, by fence", "a few of head_generation and pull_generation.", "run_binding or unconfirmed_intent again and again: "+runbook+"CountersignFenceRefusals.", Count,
			q("countersign:fence_refusals:increase15m", "{{reason}}")),
		lines("Wait", "a second or two.", "more replicas.", Seconds, within("95", "countersign_evaluator_queue_wait_seconds", "lane")),
		lines("Evaluations that wait", "near nothing.", "open Queues.", Count, q(`sum by (lane) (countersign:queue_rows{queue="evaluation"})`, "{{lane}}")),
	}})
}

func reconciler() Dashboard {
	return service("reconciler", "Reconciler", "Is what events missed found again?", Row{"Scans", []Panel{
		lines("Last complete scan", "below two intervals (600 s).", runbook+"CountersignReconcileStale.", Seconds, q("max(countersign_reconciler_last_success_age_seconds)", "ago")).alertAt(1800),
		lines("Scans", "complete.", "partial: what was left out is beside. failure: the App's installations could not be listed.", Count, q("sum by (result) (increase(countersign_reconciler_scans_total[1h]))", "{{result}}")),
		lines("Duration", "well below the interval.", "longer than the interval: raise COUNTERSIGN_RECONCILE_INTERVAL.", Seconds, within("95", "countersign_reconciler_scan_seconds", "")),
		lines("Left out", "nothing.", "the reason says why; rate limits mend themselves.", Count, quiet("sum by (reason) (increase(countersign_reconciler_left_out_total[1h]))", "{{reason}}")),
		lines("Pull requests seen", "queued is what was due for a recheck.", "much queued right after an outage is normal.", Count, q("sum by (result) (increase(countersign_reconciler_pulls_total[1h]))", "{{result}}")),
		lines("Elections", "one replica is elected, the others are told held.", "failed: the database.", Count, q("sum by (result) (increase(countersign_reconciler_elections_total[1h]))", "{{result}}")),
	}}, Row{"What was missed", []Panel{
		lines("Missed webhooks found", "none.", "failed: ingress did not answer then. missing: it did, and the row is gone; ask why.", Count, q("sum by (kind) (increase(countersign_reconciler_gap_found_total[1h]))", "{{kind}}")),
		lines("How they ended", "filled, acknowledged.", "refused, given_up, expired: "+runbook+"CountersignDeliveriesMissed.", Count, q("sum by (state) (increase(countersign_reconciler_gap_settled_total[1h]))", "{{state}}")),
		lines("Walks over GitHub's log", "complete.", "failure: the App's own credentials; `countersign doctor`.", Count, q("sum by (result) (increase(countersign_reconciler_gap_passes_total[1h]))", "{{result}}")),
		lines("Checks that differ", "0.", "an incident: "+runbook+"CountersignDrift.", Count, q("sum by (kind) (increase(countersign_reconciler_drift_total[1h]))", "{{kind}}")).alertAt(1),
		lines("Heads compared", "some, each interval.", "none: COUNTERSIGN_RECONCILE_DRIFT_HEADS is 0, or nothing was decided.", Count, q("sum(increase(countersign_reconciler_drift_compared_total[1h]))", "heads")),
		lines("Rows removed by retention", "a few, each scan.", "none for weeks: the scan does not end.", Count, q("sum by (kind) (increase(countersign_reconciler_pruned_rows_total[1h]))", "{{kind}}")),
	}})
}

func console() Dashboard {
	d := service("console", "Console", "Can people see why, and only what is theirs?", Row{"Pages", []Panel{
		lines("Requests", "2xx and 3xx.", "5xx: the log. 4xx in bulk: somebody guesses.", PerSecond, q("sum by (status) (rate(countersign_console_requests_total[$__rate_interval]))", "{{status}}")),
		lines("Duration", "below half a second at p95.", "slow: the database, or GitHub's answer to what a person may see.", Seconds, within("95", "countersign_console_request_duration_seconds", "page")),
		lines("Sign-ins", "ok.", "refused in bulk: somebody forges. failed: GitHub.", PerSecond, q("sum by (result) (rate(countersign_console_sign_ins_total[$__rate_interval]))", "{{result}}")),
		lines("Looks at what a person can see", "cached, some asked.", "failed: GitHub could not be asked, and nothing was shown.", PerSecond, q("sum by (result) (rate(countersign_console_access_total[$__rate_interval]))", "{{result}}")),
		lines("Pages kept up to date", "as many as people look at.", "nothing.", Count, q("sum(countersign_console_live_connections)", "pages")),
	}})
	for i := range d.Rows {
		d.Rows[i] = optional(d.Rows[i])
	}
	return d
}

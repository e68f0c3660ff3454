package helm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/yaml"
)

const chartDir = "../../deploy/helm/countersign"

var services = []string{"evaluator", "fanout", "ingress", "invalidator", "reconciler"}

type object = map[string]any

// minimal is what an operator must give, and NATS.
func minimal() object {
	all := object{}
	for _, s := range services {
		all[s] = object{"existingSecret": "gate-" + s}
	}
	return object{
		"github": object{"appId": 1234}, "nats": object{"url": "nats://nats.nats:4222"}, "migrate": object{"existingSecret": "gate-owner"}, "services": all,
	}
}

// merge lays one over the other, maps merged.
func merge(base, over object) object {
	out := maps.Clone(base)
	for k, v := range over {
		if a, ok := out[k].(object); ok {
			if b, ok := v.(object); ok {
				out[k] = merge(a, b)
				continue
			}
		}
		out[k] = v
	}
	return out
}

func render(values object) (map[string]object, error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, err
	}
	all, err := chartutil.ToRenderValues(chart, values, chartutil.ReleaseOptions{Name: "gate", Namespace: "review", IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	objects := map[string]object{}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, doc := range strings.Split(text, "\n---") {
			var o object
			if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, doc)
			}
			if o == nil {
				continue
			}
			key := fmt.Sprint(o["kind"], "/", at(o, "metadata", "name"))
			if objects[key] != nil {
				return nil, fmt.Errorf("%s is rendered twice", key)
			}
			objects[key] = o
		}
	}
	return objects, nil
}

func rendered(t *testing.T, over object) map[string]object {
	t.Helper()
	objects, err := render(merge(minimal(), over))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// at walks into maps and lists; a number picks of a list.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(object)
			v = m[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// env of the first container, by name.
func env(pod any) map[string]string {
	all := map[string]string{}
	list, _ := at(pod, "containers", 0, "env").([]any)
	for _, e := range list {
		all[fmt.Sprint(at(e, "name"))] = fmt.Sprint(at(e, "value"))
	}
	return all
}

func TestLint(t *testing.T) {
	t.Parallel()
	linter := lint.All(chartDir, minimal(), "review", true)
	for _, m := range linter.Messages {
		if m.Severity >= support.WarningSev {
			t.Error(m)
		}
	}
}

func TestWhatIsRendered(t *testing.T) {
	t.Parallel()
	objects := rendered(t, nil)
	kinds := map[string]int{}
	for key := range objects {
		kind, _, _ := strings.Cut(key, "/")
		kinds[kind]++
	}
	want(t, "what is made", kinds, map[string]int{"Deployment": 5, "Service": 6, "PodDisruptionBudget": 5, "HorizontalPodAutoscaler": 5, "NetworkPolicy": 5, "Job": 1})
	for _, s := range services {
		if kinds["Secret"] > 0 {
			t.Error("a Secret is made; they exist already")
		}
		d := objects["Deployment/gate-"+s]
		want(t, s+"'s selector", at(d, "spec", "selector", "matchLabels"), map[string]any{
			"app.kubernetes.io/name": "countersign", "app.kubernetes.io/instance": "gate", "app.kubernetes.io/component": s,
		})
		labels, _ := at(d, "spec", "template", "metadata", "labels").(object)
		for _, kind := range []string{"PodDisruptionBudget/gate-", "NetworkPolicy/gate-"} {
			selector := at(objects[kind+s], "spec", "selector", "matchLabels")
			if selector == nil {
				selector = at(objects[kind+s], "spec", "podSelector", "matchLabels")
			}
			m, _ := selector.(object)
			if len(m) == 0 {
				t.Errorf("%s%s selects everything", kind, s)
			}
			for k, v := range m {
				if labels[k] != v {
					t.Errorf("%s%s selects %s=%v, the pods have %v", kind, s, k, v, labels[k])
				}
			}
		}
		want(t, s+"'s replicas, which its autoscaler decides", at(d, "spec", "replicas"), nil)
		want(t, s+"'s autoscaler", at(objects["HorizontalPodAutoscaler/gate-"+s], "spec", "scaleTargetRef", "name"), "gate-"+s)
		want(t, s+"'s secret", at(d, "spec", "template", "spec", "volumes", 0, "secret", "secretName"), "gate-"+s)
	}
}

func TestPodsAreConfined(t *testing.T) {
	t.Parallel()
	objects := rendered(t, nil)
	for key, o := range objects {
		kind, name, _ := strings.Cut(key, "/")
		if kind != "Deployment" && kind != "Job" {
			continue
		}
		pod := at(o, "spec", "template", "spec")
		want(t, name+" token", at(pod, "automountServiceAccountToken"), false)
		want(t, name+" runAsNonRoot", at(pod, "securityContext", "runAsNonRoot"), true)
		want(t, name+" seccomp", at(pod, "securityContext", "seccompProfile", "type"), "RuntimeDefault")
		c := at(pod, "containers", 0)
		want(t, name+" root file system", at(c, "securityContext", "readOnlyRootFilesystem"), true)
		want(t, name+" escalation", at(c, "securityContext", "allowPrivilegeEscalation"), false)
		want(t, name+" capabilities", at(c, "securityContext", "capabilities", "drop"), []any{"ALL"})
		if at(c, "resources", "limits", "memory") == nil {
			t.Errorf("%s has no limit of memory", name)
		}
		want(t, name+" secrets", at(c, "volumeMounts", 0, "readOnly"), true)
	}
}

// The process that faces the internet has no key that can write to GitHub, and no way there.
func TestOnlyWhatNeedsGitHubMayLeave(t *testing.T) {
	t.Parallel()
	objects := rendered(t, nil)
	for _, s := range services {
		vars := env(at(objects["Deployment/gate-"+s], "spec", "template", "spec"))
		_, key := vars["COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE"]
		_, hook := vars["COUNTERSIGN_WEBHOOK_SECRET_FILE"]
		want(t, s+" has the App's key", key, s != "ingress")
		want(t, s+" has the webhook secret", hook, s == "ingress")
		for name := range vars {
			if strings.Contains(name, "SECRET") && !strings.HasSuffix(name, "_FILE") {
				t.Errorf("%s gets %s by value", s, name)
			}
		}
		var out, in []string
		egress, _ := at(objects["NetworkPolicy/gate-"+s], "spec", "egress").([]any)
		for _, rule := range egress {
			out = append(out, fmt.Sprint(at(rule, "ports", 0, "port")))
		}
		ingress, _ := at(objects["NetworkPolicy/gate-"+s], "spec", "ingress").([]any)
		for _, rule := range ingress {
			if from, _ := at(rule, "from").([]any); len(from) == 0 {
				t.Errorf("%s is open to everybody", s)
			}
			in = append(in, fmt.Sprint(at(rule, "ports", 0, "port")))
		}
		want(t, s+" may reach 443", slices.Contains(out, "443"), s != "ingress")
		want(t, s+" may reach the database and NATS", slices.Contains(out, "5432") && slices.Contains(out, "4222"), true)
		want(t, s+" is reached at", in, map[bool][]string{true: {"8081", "9090"}, false: {"9090"}}[s == "ingress"])
	}
}

func TestQueueAgeScales(t *testing.T) {
	t.Parallel()
	objects := rendered(t, nil)
	for s, queue := range map[string]any{"invalidator": "revocation", "evaluator": "evaluation", "ingress": nil, "reconciler": nil, "fanout": nil} {
		hpa := objects["HorizontalPodAutoscaler/gate-"+s]
		want(t, s+"'s queue", at(hpa, "spec", "metrics", 0, "external", "metric", "selector", "matchLabels", "queue"), queue)
		if queue != nil {
			want(t, s+"'s metric", at(hpa, "spec", "metrics", 0, "external", "metric", "name"), "countersign_queue_oldest_seconds")
		}
	}
	objects = rendered(t, object{"services": object{"evaluator": object{"replicas": 7, "autoscaling": object{"enabled": false}}}})
	want(t, "replicas without an autoscaler", at(objects["Deployment/gate-evaluator"], "spec", "replicas"), 7)
	if objects["HorizontalPodAutoscaler/gate-evaluator"] != nil {
		t.Error("an autoscaler is made though it is off")
	}
}

func TestTheSchemaIsMigratedFirst(t *testing.T) {
	t.Parallel()
	job := rendered(t, object{"image": object{"tag": "1.2.3"}})["Job/gate-migrate"]
	want(t, "the hook", at(job, "metadata", "annotations", "helm.sh/hook"), "pre-install,pre-upgrade")
	want(t, "its arguments", at(job, "spec", "template", "spec", "containers", 0, "args"), []any{"database", "migrate"})
	want(t, "its image", at(job, "spec", "template", "spec", "containers", 0, "image"), "countersign/countersign:1.2.3")
	want(t, "its secret", at(job, "spec", "template", "spec", "volumes", 0, "secret", "secretName"), "gate-owner")
}

func TestOwnVariablesWin(t *testing.T) {
	t.Parallel()
	objects := rendered(t, object{
		"env":      object{"COUNTERSIGN_CHECK_NAME": "Gate", "COUNTERSIGN_LOG_LEVEL": "warn"},
		"services": object{"evaluator": object{"env": object{"COUNTERSIGN_LOG_LEVEL": "debug", "COUNTERSIGN_WORKER_CONCURRENCY": 16}}},
	})
	vars := env(at(objects["Deployment/gate-evaluator"], "spec", "template", "spec"))
	want(t, "the evaluator's", []string{vars["COUNTERSIGN_CHECK_NAME"], vars["COUNTERSIGN_LOG_LEVEL"], vars["COUNTERSIGN_WORKER_CONCURRENCY"], vars["COUNTERSIGN_GITHUB_APP_ID"]}, []string{"Gate", "debug", "16", "1234"})
	vars = env(at(objects["Deployment/gate-fanout"], "spec", "template", "spec"))
	want(t, "the fan-out's", []string{vars["COUNTERSIGN_CHECK_NAME"], vars["COUNTERSIGN_LOG_LEVEL"]}, []string{"Gate", "warn"})
}

// What is wrong is refused, and the message names it.
func TestBadValuesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		values object
		says   string
	}{
		"no App":               {object{"github": object{"appId": 0}}, "appId"},
		"no secret":            {object{"services": object{"fanout": object{"existingSecret": ""}}}, "existingSecret"},
		"an unknown service":   {object{"services": object{"console2": object{}}}, "console2"},
		"a misspelled value":   {object{"netwrokPolicy": object{}}, "netwrokPolicy"},
		"GitHub without TLS":   {object{"github": object{"apiUrl": "http://api.example"}}, "apiUrl"},
		"a foreign variable":   {object{"env": object{"PGHOST": "x"}}, "PGHOST"},
		"no owner's secret":    {object{"migrate": object{"existingSecret": ""}}, "migrate.existingSecret"},
		"a drain that is shot": {object{"terminationGracePeriodSeconds": 20}, "terminationGracePeriodSeconds"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := render(merge(minimal(), c.values))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that names %s", err, c.says)
			}
		})
	}
}

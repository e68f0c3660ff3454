package compose

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/countersign/countersign/internal/reference"
	"github.com/countersign/countersign/internal/staging"
	"github.com/countersign/countersign/pkg/daemon"
)

const deploy = "../../deploy"

// read loads compose files as `docker compose --profile demo` does, without an .env.
func read(t *testing.T, environ map[string]string, files ...string) *types.Project {
	t.Helper()
	var configs []types.ConfigFile
	for _, name := range files {
		configs = append(configs, types.ConfigFile{Filename: filepath.Join(deploy, name)})
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{WorkingDir: deploy, ConfigFiles: configs, Environment: environ}, func(o *loader.Options) {
		o.SetProjectName("countersign", true)
		o.Profiles = []string{"demo"}
	})
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// text is the file as it stands, for what a parsed project no longer shows.
func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var oneShots = []string{"secrets", "migrate"}

// ours are the containers of this repository that stay.
func ours() []string { return append(slices.Clone(staging.Services), "github") }

func TestEveryContainer(t *testing.T) {
	t.Parallel()
	project := read(t, nil, "compose.yaml")
	for name, s := range project.Services {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s.MemLimit == 0 {
				t.Error("it has no memory limit")
			}
			if s.ContainerName != "" {
				t.Error("it has a fixed container name, and could not be scaled")
			}
			if s.Logging == nil || s.Logging.Options["max-size"] == "" {
				t.Error("its log grows without a bound")
			}
			if (len(s.Ports) > 0) != (name == "ingress") {
				t.Errorf("only ingress is published, and it publishes %v", s.Ports)
			}
			if slices.Contains(oneShots, name) {
				return
			}
			if s.Restart != "unless-stopped" {
				t.Errorf("restart is %q", s.Restart)
			}
			if s.HealthCheck == nil || len(s.HealthCheck.Test) == 0 || s.HealthCheck.Test[0] != "CMD" {
				t.Errorf("it has no health check that runs without a shell: %v", s.HealthCheck)
			}
			if s.CPUS == 0 || s.PidsLimit == 0 {
				t.Errorf("limits: %v cpus, %v processes", s.CPUS, s.PidsLimit)
			}
			if s.StopGracePeriod == nil {
				t.Error("it has no stop grace")
			}
		})
	}
}

func TestOurContainers(t *testing.T) {
	t.Parallel()
	project := read(t, nil, "compose.yaml")
	for _, name := range append(ours(), oneShots...) {
		s := project.Services[name]
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: read-only root %v, dropped capabilities %v, %v", name, s.ReadOnly, s.CapDrop, s.SecurityOpt)
		}
		if s.Image != "countersign/"+binary(name)+":devel" || s.Build == nil || *s.Build.Args["SERVICE"] != binary(name) || s.Build.Dockerfile != "deploy/Dockerfile" {
			t.Errorf("%s: image %q, build %+v", name, s.Image, s.Build)
		}
		if name == "secrets" {
			// The one that may be root: it gives files to other users, and reaches nobody.
			if s.NetworkMode != "none" {
				t.Errorf("secrets runs as root on the network %q", s.NetworkMode)
			}
		} else if s.User != "65532:65532" {
			t.Errorf("%s runs as %q", name, s.User)
		}
	}
}

// binary is the directory of cmd/ that a container runs.
func binary(container string) string {
	switch container {
	case "secrets", "migrate":
		return "countersign"
	case "github":
		return "githubsim"
	}
	return container
}

// environment is a container's variables that are ours, with their values.
func environment(s types.ServiceConfig) map[string]string {
	vars := map[string]string{}
	for name, value := range s.Environment {
		if strings.HasPrefix(name, "COUNTERSIGN_") && value != nil {
			vars[name] = *value
		}
	}
	return vars
}

// sections are the settings of each service, as docs/configuration.md lists them.
func settings(t *testing.T, service string) map[string]bool {
	t.Helper()
	page := text(t, "../../docs/configuration.md")
	known := map[string]bool{}
	row := regexp.MustCompile("(?m)^\\| `(COUNTERSIGN_[A-Z_]+)` \\|(.*)\\|$")
	own := false
	for line := range strings.Lines(page) {
		if heading, is := strings.CutPrefix(line, "## "); is {
			own = strings.TrimSpace(heading) == service
		}
		m := row.FindStringSubmatch(strings.TrimSpace(line))
		if m != nil && (own || strings.Contains(m[2], service)) {
			known[m[1]] = true
			if strings.Contains(m[2], "**secret**") {
				known[m[1]+"_FILE"] = true
			}
		}
	}
	if len(known) < 10 {
		t.Fatalf("docs/configuration.md lists %d settings of %s: the page is laid out otherwise", len(known), service)
	}
	return known
}

func TestServicesAreConfigured(t *testing.T) {
	t.Parallel()
	project := read(t, nil, "compose.yaml")
	if len(reference.Sections()) < len(staging.Services) {
		t.Fatalf("the reference has %d sections", len(reference.Sections()))
	}
	for _, name := range staging.Services {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := project.Services[name]
			known := settings(t, name)
			vars := environment(s)
			for v, value := range vars {
				if !known[v] {
					t.Errorf("%s is no setting of %s: it would not start", v, name)
				}
				secret := known[v+"_FILE"]
				if secret {
					t.Errorf("%s is given by value", v)
				}
				if strings.HasSuffix(v, "_FILE") && !strings.HasPrefix(value, "/run/secrets/") {
					t.Errorf("%s is %s", v, value)
				}
			}
			for _, required := range []string{"COUNTERSIGN_DATABASE_URL_FILE", "COUNTERSIGN_NATS_URL", "COUNTERSIGN_NATS_NKEY_SEED_FILE"} {
				if vars[required] == "" {
					t.Errorf("%s is not set", required)
				}
			}
			if vars["COUNTERSIGN_NATS_STORAGE"] != "file" {
				t.Error("nudges are not kept in a file")
			}
			grace, err := time.ParseDuration(vars["COUNTERSIGN_SHUTDOWN_GRACE"])
			if err != nil || s.StopGracePeriod == nil || time.Duration(*s.StopGracePeriod) < grace+5*time.Second {
				t.Errorf("told to stop it takes %s, and is killed after %v (%v)", grace, s.StopGracePeriod, err)
			}
			for on, condition := range map[string]string{"secrets": "service_completed_successfully", "migrate": "service_completed_successfully", "nats": "service_started"} {
				if got := s.DependsOn[on].Condition; got != condition {
					t.Errorf("it waits for %s: %q, want %q", on, got, condition)
				}
			}
		})
	}
	t.Run("ingress holds no GitHub key and does not reach where GitHub is", func(t *testing.T) {
		s := project.Services["ingress"]
		if _, has := s.Environment["COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE"]; has {
			t.Error("it has the key's variable")
		}
		if _, on := s.Networks["github"]; on {
			t.Error("it is on the network of those that need GitHub")
		}
	})
}

// TestSecretsReachTheirHoldersOnly: each container mounts the volume of its own name, read-only, and the maker all of them.
func TestSecretsReachTheirHoldersOnly(t *testing.T) {
	t.Parallel()
	project := read(t, nil, "compose.yaml")
	mounted := map[string]bool{}
	for name, s := range project.Services {
		for _, v := range s.Volumes {
			if !strings.HasPrefix(v.Source, "secrets-") {
				continue
			}
			if name == "secrets" {
				mounted[v.Source+" "+v.Target] = true
				continue
			}
			if v.Source != "secrets-"+name || v.Target != "/run/secrets" || !v.ReadOnly {
				t.Errorf("%s mounts %s on %s, read-only %v", name, v.Source, v.Target, v.ReadOnly)
			}
		}
		if len(s.Secrets) > 0 {
			t.Errorf("%s: a file of the host has the host's owner, which the container's user cannot read", name)
		}
	}
	for _, holder := range staging.Holders() {
		if !mounted["secrets-"+holder+" /secrets/of/"+holder] {
			t.Errorf("what is made for %s is handed to no volume", holder)
		}
		if _, is := project.Services[holder]; !is {
			t.Errorf("%s has secrets and no container", holder)
		}
	}
}

func TestOneRoleAService(t *testing.T) {
	t.Parallel()
	created := regexp.MustCompile(`(?s)ARRAY\[(.*?)\]`).FindStringSubmatch(text(t, deploy+"/postgres/roles.sql"))
	if created == nil {
		t.Fatal("roles.sql creates roles otherwise")
	}
	var roles []string
	for _, m := range regexp.MustCompile(`'countersign_(\w+)'`).FindAllStringSubmatch(created[1], -1) {
		roles = append(roles, m[1])
	}
	for _, service := range staging.Services {
		if !slices.Contains(roles, service) {
			t.Errorf("%s has no role in roles.sql, which has %v", service, roles)
		}
	}
	migrate := read(t, nil, "compose.yaml").Services["migrate"]
	if !slices.Contains(migrate.Command, "--role-passwords=/run/secrets/roles") {
		t.Errorf("migrate sets no passwords: %v", migrate.Command)
	}
}

// TestNothingAssumesOneReplica: a port range, no other fixed host port, and Prometheus finds replicas by name.
func TestNothingAssumesOneReplica(t *testing.T) {
	t.Parallel()
	project := read(t, nil, "compose.yaml")
	ports := project.Services["ingress"].Ports
	if len(ports) != 1 || !strings.Contains(ports[0].Published, "-") || ports[0].HostIP != "127.0.0.1" {
		t.Errorf("ingress publishes %+v", ports)
	}
	prometheus := text(t, deploy+"/prometheus/prometheus.yml")
	_, port, _ := strings.Cut(environment(project.Services["ingress"])["COUNTERSIGN_OPERATOR_LISTEN"], ":")
	for _, service := range staging.Services {
		want := regexp.MustCompile(fmt.Sprintf(`dns_sd_configs: \[\{names: \[%s\], type: A, port: %s\b`, service, port))
		if !want.MatchString(prometheus) {
			t.Errorf("Prometheus does not look for the replicas of %s on port %s", service, port)
		}
	}
}

func TestOtherFiles(t *testing.T) {
	t.Parallel()
	t.Run("offline leaves out Grafana and the trace store, and no service exports spans", func(t *testing.T) {
		t.Parallel()
		project := read(t, nil, "compose.yaml", "compose.offline.yaml")
		for name := range project.Services {
			if name == "grafana" || name == "tempo" {
				t.Errorf("%s is started", name)
			}
		}
		for _, service := range staging.Services {
			if got := environment(project.Services[service])["COUNTERSIGN_OTLP_ENDPOINT"]; got != "" {
				t.Errorf("%s exports to %s", service, got)
			}
		}
	})
	t.Run("look publishes on this machine alone", func(t *testing.T) {
		t.Parallel()
		for name, s := range read(t, nil, "compose.yaml", "compose.look.yaml").Services {
			for _, p := range s.Ports {
				if p.HostIP != "127.0.0.1" {
					t.Errorf("%s publishes on %q", name, p.HostIP)
				}
			}
		}
	})
	t.Run("the example's variables are used, and an App of your own is what they configure", func(t *testing.T) {
		t.Parallel()
		compose := text(t, deploy+"/compose.yaml")
		environ := map[string]string{}
		for _, m := range regexp.MustCompile(`(?m)^([A-Z_]+)=(.*)$`).FindAllStringSubmatch(text(t, deploy+"/.env.example"), -1) {
			environ[m[1]] = m[2]
			if !strings.Contains(compose, "${"+m[1]) {
				t.Errorf("%s is used nowhere", m[1])
			}
		}
		environ["COUNTERSIGN_GITHUB_APP_ID"] = "77"
		vars := environment(read(t, environ, "compose.yaml").Services["evaluator"])
		if vars["COUNTERSIGN_GITHUB_API_URL"] != "https://api.github.com/" || vars["COUNTERSIGN_GITHUB_APP_ID"] != "77" {
			t.Errorf("evaluator gets %s, App %s", vars["COUNTERSIGN_GITHUB_API_URL"], vars["COUNTERSIGN_GITHUB_APP_ID"])
		}
	})
	t.Run("the stand-in is asked by the name its certificate has", func(t *testing.T) {
		t.Parallel()
		project := read(t, nil, "compose.yaml")
		if got := environment(project.Services["evaluator"])["COUNTERSIGN_GITHUB_API_URL"]; got != "https://"+staging.StandInHost+":8790/" {
			t.Errorf("the API is at %s", got)
		}
		if _, is := project.Services[staging.StandInHost]; !is {
			t.Errorf("no container is called %s", staging.StandInHost)
		}
	})
}

// TestDefaultsStillMatch: what compose.yaml states in a comment or relies on without saying.
func TestDefaultsStillMatch(t *testing.T) {
	t.Parallel()
	cfg, err := daemon.Load[daemon.Config](nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.ShutdownGrace != 25*time.Second {
		t.Errorf("the default grace is %s: compose.yaml states 25s", cfg.ShutdownGrace)
	}
}

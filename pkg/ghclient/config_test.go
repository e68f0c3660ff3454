package ghclient

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/githubsim"
)

func TestConfigIsRefusedByName(t *testing.T) {
	t.Parallel()
	good := Config{APIURL: "https://api.github.com/", AppID: 7, PrivateKey: testKeyPEM()}
	planted := strings.Split(testKeyPEM(), "\n")[2] // a line of the key itself
	for _, tt := range []struct {
		name   string
		change func(*Config)
		says   []string // setting and mend
	}{
		{"no App id", func(c *Config) { c.AppID = 0 }, []string{"COUNTERSIGN_GITHUB_APP_ID", "settings page"}},
		{"no key", func(c *Config) { c.PrivateKey = " \n" }, []string{"COUNTERSIGN_GITHUB_PRIVATE_KEY ", "COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE"}},
		{"a path for a key", func(c *Config) { c.PrivateKey = "/run/secrets/app.pem" }, []string{"holds a path", "COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE"}},
		{"half a key", func(c *Config) { c.PrivateKey = c.PrivateKey[:200] }, []string{"COUNTERSIGN_GITHUB_PRIVATE_KEY", "cut short"}},
		{"a key in base64", func(c *Config) { c.PrivateKey = base64.StdEncoding.EncodeToString([]byte(c.PrivateKey)) }, []string{"COUNTERSIGN_GITHUB_PRIVATE_KEY", "decoded"}},
		{"a key in one line", func(c *Config) { c.PrivateKey = strings.ReplaceAll(c.PrivateKey, "\n", " ") }, []string{"COUNTERSIGN_GITHUB_PRIVATE_KEY", "line breaks"}},
		{"a public key", func(c *Config) { c.PrivateKey = strings.ReplaceAll(c.PrivateKey, "RSA PRIVATE", "PUBLIC") }, []string{"COUNTERSIGN_GITHUB_PRIVATE_KEY", "not a private key"}},
		{"a damaged key", func(c *Config) { c.PrivateKey = strings.Replace(c.PrivateKey, planted[:8], "AAAAAAAA", 1) }, []string{"COUNTERSIGN_GITHUB_PRIVATE_KEY", "2048 bits"}},
		{"plain http", func(c *Config) { c.APIURL = "http://github.example/" }, []string{"COUNTERSIGN_GITHUB_API_URL", "https"}},
		{"the web address", func(c *Config) { c.APIURL = "https://github.com/" }, []string{"COUNTERSIGN_GITHUB_API_URL", "https://api.github.com/"}},
		{"GraphQL's address", func(c *Config) { c.APIURL = "https://github.example/api/graphql" }, []string{"COUNTERSIGN_GITHUB_API_URL", "/api/v3/"}},
		{"credentials in the URL", func(c *Config) { c.APIURL = "https://a:b@github.example/" }, []string{"COUNTERSIGN_GITHUB_API_URL"}},
		{"no URL", func(c *Config) { c.APIURL = "api.github.com" }, []string{"COUNTERSIGN_GITHUB_API_URL", "https://HOST/api/v3/"}},
		{"GraphQL on another host", func(c *Config) { c.GraphQLURL = "https://elsewhere.example/graphql" }, []string{"COUNTERSIGN_GITHUB_GRAPHQL_URL", "another host"}},
		{"a version that is no date", func(c *Config) { c.APIVersion = "v3" }, []string{"COUNTERSIGN_GITHUB_API_VERSION", "2022-11-28"}},
		{"no patience", func(c *Config) { c.RequestTimeout = time.Millisecond }, []string{"COUNTERSIGN_GITHUB_REQUEST_TIMEOUT"}},
		{"too much at once", func(c *Config) { c.MaxInFlight = 500 }, []string{"COUNTERSIGN_GITHUB_MAX_IN_FLIGHT"}},
		{"an owner in the repository's name", func(c *Config) { c.OrgRepository = "acme/.github" }, []string{"COUNTERSIGN_ORG_POLICY_REPOSITORY"}},
	} {
		t.Run("RG-449 "+tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := good
			tt.change(&cfg)
			err := cfg.Validate()
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tt.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("does not say %q: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), planted[:12]) || strings.Contains(err.Error(), "a:b") {
				t.Errorf("the error holds what was given: %v", err)
			}
			if _, built := NewApp(cfg, Options{}); built == nil {
				t.Error("NewApp took it")
			}
		})
	}
	t.Run("RG-449 backslash n in the key is a line break", func(t *testing.T) {
		t.Parallel()
		cfg := good
		cfg.PrivateKey = strings.ReplaceAll(cfg.PrivateKey, "\n", `\n`)
		if err := cfg.Validate(); err != nil {
			t.Error(err)
		}
	})
	t.Run("everything that is wrong is said at once", func(t *testing.T) {
		t.Parallel()
		err := Config{APIURL: "github.example"}.Validate()
		for _, setting := range []string{"COUNTERSIGN_GITHUB_APP_ID", "COUNTERSIGN_GITHUB_PRIVATE_KEY", "COUNTERSIGN_GITHUB_API_URL"} {
			if err == nil || !strings.Contains(err.Error(), setting) {
				t.Errorf("does not name %s: %v", setting, err)
			}
		}
	})
	t.Run("a GraphQL address of its own is used", func(t *testing.T) {
		t.Parallel()
		if _, got, err := apiURLs("https://proxy.example/github/", "https://proxy.example/github-graphql"); err != nil || got != "https://proxy.example/github-graphql" {
			t.Errorf("got %s, %v", got, err)
		}
	})
}

func TestServer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, enterprise, path, version string
		refused, doubts                 string
	}{
		{"github.com", "", "/", "2022-11-28", "", ""},
		{"github.com, the later version", "", "/", "2026-03-10", "", ""},
		{"a server we are held to", "3.17.2", "/api/v3/", "2022-11-28", "", ""},
		{"a server without the later version", "3.17.2", "/api/v3/", "2026-03-10", "COUNTERSIGN_GITHUB_API_VERSION is 2026-03-10, which this server (GitHub Enterprise Server 3.17.2) does not serve: use one of 2022-11-28", ""},
		{"an old server", "3.9.4", "/api/v3/", "2022-11-28", "", "older than 3.17"},
		{"a new server", "3.30.0", "/api/v3/", "2022-11-28", "", "newer than 3.19"},
		{"a server of no known version", "next", "/api/v3/", "2022-11-28", "", "no version"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sim := githubsim.New(githubsim.Options{Enterprise: tt.enterprise})
			t.Cleanup(sim.Close)
			ex := githubsim.AddExample(sim, githubsim.ExampleOptions{})
			// The question is asked in the version that every server has.
			app, err := NewApp(Config{APIURL: sim.URL() + tt.path, AppID: ex.App.ID, PrivateKey: string(ex.App.PEM)}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := app.Server(t.Context())
			if err != nil || s.Enterprise != tt.enterprise {
				t.Fatalf("server %+v, %v", s, err)
			}
			if s.Skew.Abs() > 5*time.Second {
				t.Errorf("our clock is %s ahead of one that is the same", s.Skew)
			}
			if refused := s.Refuses(tt.version); tt.refused == "" && refused != nil || tt.refused != "" && (refused == nil || refused.Error() != tt.refused) {
				t.Errorf("refused: %v", refused)
			}
			if doubts := s.Doubts(); tt.doubts == "" && doubts != "" || !strings.Contains(doubts, tt.doubts) {
				t.Errorf("doubts: %q", doubts)
			}
		})
	}
	t.Run("a server without API versions is refused by its version", func(t *testing.T) {
		t.Parallel()
		err := Server{Enterprise: "3.8.0"}.Refuses("2022-11-28")
		if err == nil || !strings.Contains(err.Error(), "3.8.0") || !strings.Contains(err.Error(), "upgrade") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a request in a version that is not served says which setting", func(t *testing.T) {
		t.Parallel()
		sim := githubsim.New(githubsim.Options{Enterprise: "3.17.2"})
		t.Cleanup(sim.Close)
		ex := githubsim.AddExample(sim, githubsim.ExampleOptions{})
		app, err := NewApp(Config{APIURL: sim.URL() + "/api/v3/", AppID: ex.App.ID, PrivateKey: string(ex.App.PEM), APIVersion: "2026-03-10"}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = app.Identity(t.Context())
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "COUNTERSIGN_GITHUB_API_VERSION") || !strings.Contains(err.Error(), "3.17.2") {
			t.Errorf("got %v", err)
		}
	})
}

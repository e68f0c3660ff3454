package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestI10SecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	const password = "p@ss/w0rd&more"
	known := []string{"webhook-secret-of-32-bytes-exactly", "postgres://ingress:" + "p%40ss%2Fw0rd%26more" + "@127.0.0.1:5432/c", "multi\nline\nsecret"}
	type thing struct{ Name, Hidden string }
	for _, test := range []struct {
		name  string
		log   func(*slog.Logger)
		never []string
		still string
	}{
		{"a known value in the message", func(l *slog.Logger) { l.Info("got " + known[0]) }, known[:1], "got"},
		{"a known value in an attribute", func(l *slog.Logger) { l.Info("m", "body", "x"+known[0]+"y") }, known[:1], "body"},
		{"a known value in an error", func(l *slog.Logger) { l.Info("m", KeyErr, fmt.Errorf("dial %s: %w", known[1], errors.New("refused"))) }, []string{known[1], "p%40ss"}, "refused"},
		{"a known URL's password, decoded", func(l *slog.Logger) { l.Info("m", KeyErr, errors.New("password "+password+" is wrong")) }, []string{password}, "is wrong"},
		{"a known value of several lines", func(l *slog.Logger) { l.Info("m", "v", thing{"n", known[2]}) }, []string{"line"}, ""},
		{"a known value inside a struct", func(l *slog.Logger) { l.Info("m", "v", thing{"kept", known[0]}) }, known[:1], "kept"},
		{"a known value in a group", func(l *slog.Logger) { l.Info("m", slog.Group("g", "a", known[0])) }, known[:1], `"g"`},
		{"a known value in With", func(l *slog.Logger) { l.With("a", known[0]).WithGroup("g").Info("m", "b", known[0]) }, known[:1], `"g"`},
		{"a stringer", func(l *slog.Logger) { l.Info("m", "v", bytes.NewBufferString(known[0])) }, known[:1], `"v"`},
		{"a LogValuer", func(l *slog.Logger) { l.Info("m", "v", valuer{known[0]}) }, known[:1], `"v"`},
		{"a value that JSON cannot say", func(l *slog.Logger) { l.Info("m", "v", map[string]any{"f": func() {}, "s": known[0]}) }, known[:1], `"v"`},
		{"an attribute named like a secret", func(l *slog.Logger) { l.Info("m", "github_token", "tiny", "password", 12345, "Authorization", "abc") }, []string{"tiny", "12345", "abc"}, "github_token"},
		{"a GitHub token", func(l *slog.Logger) { l.Info("ghs_abcdefghijklmnopqrstuvwxyz0123456789") }, []string{"abcdefghij"}, "ghs_"},
		{"a fine-grained token", func(l *slog.Logger) { l.Info("github_pat_11ABCDEFG0123456789_abcdefghij") }, []string{"11ABCDEFG"}, "github_pat_"},
		{"a private key", func(l *slog.Logger) {
			l.Info("-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY----- tail")
		}, []string{"MIIEabc"}, "tail"},
		{"half a private key", func(l *slog.Logger) { l.Info("-----BEGIN PRIVATE KEY-----\nMIIEabc") }, []string{"MIIEabc"}, ""},
		{"a JWT", func(l *slog.Logger) { l.Info("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIn0.c2lnbmF0dXJl tail") }, []string{"eyJpc3MiOiIxIn0", "c2lnbmF0"}, "tail"},
		{"an NKey seed", func(l *slog.Logger) { l.Info("seed SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY here") }, []string{"SUAMK2FG4"}, "here"},
		{"an unknown URL's password", func(l *slog.Logger) { l.Info("nats://user:opensesame@127.0.0.1:4222") }, []string{"opensesame"}, "127.0.0.1:4222"},
		{"a bearer", func(l *slog.Logger) { l.Info("Authorization: Bearer abcdefghijklmnop1234") }, []string{"abcdefghijklmnop"}, "Bearer"},
		{"a libpq password", func(l *slog.Logger) { l.Info("host=db password=opensesame user=u") }, []string{"opensesame"}, "user=u"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			r := &Redactor{}
			r.Add(known...)
			test.log(NewLogger(&out, slog.LevelDebug, r))
			for _, never := range test.never {
				if strings.Contains(out.String(), never) {
					t.Errorf("%q is in %s", never, out.String())
				}
			}
			if !strings.Contains(out.String(), redacted) || !strings.Contains(out.String(), test.still) {
				t.Errorf("%q and %q are expected in %s", redacted, test.still, out.String())
			}
		})
	}
}

type valuer struct{ s string }

func (v valuer) LogValue() slog.Value { return slog.GroupValue(slog.String("a", v.s)) }

func TestRedactionLeavesTheRestAlone(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := NewLogger(&out, slog.LevelInfo, &Redactor{})
	log.Info("evaluated", KeyDeliveryID, "72d3162e-cc78-11e3-81ab-4c9367dc0958", KeyRepo, "acme/payments", KeyPR, 12,
		KeyHeadSHA, strings.Repeat("a1", 20), KeyLeaseToken, 41, KeyErr, errors.New("get https://api.github.com/app: 502"), "list", []int{1, 2})
	if strings.Contains(out.String(), redacted) {
		t.Errorf("an innocent line was redacted: %s", out.String())
	}
	if !strings.Contains(out.String(), `"lease_token":41`) || !strings.Contains(out.String(), `"list":[1,2]`) {
		t.Errorf("values lost their type: %s", out.String())
	}
	log.Debug("not this")
	if strings.Contains(out.String(), "not this") {
		t.Error("a debug line at level info")
	}
}

func TestI10NoKnownSecretSurvives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[A-Za-z0-9"\\<&é\n ]{8,40}`).Draw(t, "secret")
		trimmed := strings.TrimSpace(secret)
		if len(trimmed) < shortestSecret || strings.Contains(redacted, trimmed) {
			t.Skip()
		}
		r := &Redactor{}
		r.Add(secret)
		var out bytes.Buffer
		text := rapid.String().Draw(t, "before") + secret + rapid.String().Draw(t, "after")
		NewLogger(&out, slog.LevelInfo, r).Info(text, "attr", text, KeyErr, errors.New(text), "any", []string{text})
		plain, escaped := trimmed, mustQuote(trimmed)
		if strings.Contains(out.String(), plain) || strings.Contains(out.String(), escaped) {
			t.Fatalf("%q is in %s", secret, out.String())
		}
	})
}

// mustQuote is s as slog's JSON writes it.
func mustQuote(s string) string {
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Info("", "k", s)
	_, rest, _ := strings.Cut(b.String(), `"k":"`)
	return strings.TrimSuffix(rest, "\"}\n")
}

func TestRedactorIgnoresWhatIsTooShort(t *testing.T) {
	t.Parallel()
	r := &Redactor{}
	r.Add("", "ab", "   ")
	if got := r.String("about"); got != "about" {
		t.Errorf("%q", got)
	}
}

func TestSecretsOf(t *testing.T) {
	t.Parallel()
	type nested struct {
		Key   string `env:"COUNTERSIGN_K" secret:"true" desc:"k"`
		Plain string `env:"COUNTERSIGN_P" desc:"p"`
	}
	got := SecretsOf(&struct {
		Nested nested
		Many   []string `secret:"true"`
		Raw    []byte   `secret:"true"`
		hidden string
	}{nested{"one", "plain"}, []string{"two", "three"}, []byte("four"), "five"})
	if strings.Join(got, " ") != "one two three four" {
		t.Errorf("%v", got)
	}
}

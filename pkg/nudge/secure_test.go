package nudge_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/nudge/localnats"
	"github.com/countersign/countersign/pkg/nudge/nudgetest"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	operator, operatorKey := keyPair(t, nkeys.CreateOperator)
	account, accountKey := keyPair(t, nkeys.CreateAccount)
	_, systemKey := keyPair(t, nkeys.CreateAccount)
	user, userKey := keyPair(t, nkeys.CreateUser)
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	operatorJWT := encode(t, jwt.NewOperatorClaims(operatorKey), operator)
	accountJWT := encode(t, jwt.NewAccountClaims(accountKey), operator)
	systemJWT := encode(t, jwt.NewAccountClaims(systemKey), operator)
	creds, err := jwt.FormatUserConfig(encode(t, jwt.NewUserClaims(userKey), account), seed)
	if err != nil {
		t.Fatal(err)
	}
	local, err := localnats.Start(t.Context(), localnats.Options{
		Dir: t.TempDir(),
		Config: fmt.Sprintf("operator: %s\nresolver: MEMORY\nsystem_account: %s\nresolver_preload: { %s: %s, %s: %s }\n",
			operatorJWT, systemKey, accountKey, accountJWT, systemKey, systemJWT),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(local.Close)

	bus, err := nudge.Connect(t.Context(), nudge.Config{URL: local.URL(), Credentials: string(creds)}, nudge.Options{Name: "ingress"})
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	nudgetest.WaitConnected(t, bus)
}

// A key that the server does not know yet is mended on the server: nothing of ours need be restarted.
func TestARefusedUserKeepsAsking(t *testing.T) {
	t.Parallel()
	user, public := keyPair(t, nkeys.CreateUser)
	_, other := keyPair(t, nkeys.CreateUser)
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	admitting := func(port int, key string) *localnats.Server {
		local, err := localnats.Start(t.Context(), localnats.Options{
			Dir: t.TempDir(), Port: port, Log: slog.New(slog.NewTextHandler(log, nil)), Config: fmt.Sprintf("authorization { users = [ { nkey: %s } ] }\n", key),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(local.Close)
		return local
	}
	refusing := admitting(0, other)
	complaints := &lines{}
	bus, err := nudge.Connect(t.Context(), nudge.Config{URL: refusing.URL(), NKeySeed: string(seed)},
		nudge.Options{Name: "ingress", Log: slog.New(slog.NewTextHandler(complaints, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	// Two refusals by one server are where the library gives up by itself.
	nudgetest.Eventually(t, "it was refused several times", func() bool { return log.count("authentication error") >= 4 })
	if complaints.count("nats cannot be reached") != 1 {
		t.Errorf("the refusals should make one log line:\n%s", complaints)
	}
	if err := bus.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "uthorization") {
		t.Errorf("the check does not say why: %v", err)
	}
	u, err := url.Parse(refusing.URL())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	refusing.Stop()
	admitting(port, public)
	nudgetest.WaitConnected(t, bus)
}

// lines is a log that tests count in.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), s)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	selfSigned(t, cert, key)
	local, err := localnats.Start(t.Context(), localnats.Options{
		Dir:    t.TempDir(),
		Config: fmt.Sprintf("tls { cert_file: %q, key_file: %q }\n", cert, key),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(local.Close)
	url := strings.Replace(local.URL(), "nats://", "tls://", 1)

	trusting, err := nudge.Connect(t.Context(), nudge.Config{URL: url, CAFile: cert}, nudge.Options{Name: "ingress"})
	if err != nil {
		t.Fatal(err)
	}
	defer trusting.Close()
	nudgetest.WaitConnected(t, trusting)

	other := filepath.Join(dir, "other.crt")
	selfSigned(t, other, filepath.Join(dir, "other.key"))
	doubting, err := nudge.Connect(t.Context(), nudge.Config{URL: url, CAFile: other}, nudge.Options{Name: "ingress"})
	if err != nil {
		t.Fatal(err)
	}
	defer doubting.Close()
	// Long enough for several attempts: each would have succeeded above.
	deadline := time.Now().Add(time.Second)
	for time.Now().Before(deadline) {
		if doubting.Connected() {
			t.Fatal("connected to a server whose certificate nobody vouches for")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestLocalServerAdmitsOnlyItsPassword(t *testing.T) {
	t.Parallel()
	local, err := localnats.Start(t.Context(), localnats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	_, address, ok := strings.Cut(local.URL(), "@")
	if !ok {
		t.Fatalf("no password in the URL")
	}
	if host, _, err := net.SplitHostPort(address); err != nil || host != "127.0.0.1" {
		t.Errorf("listens on %s", address)
	}
	stranger, err := nudge.Connect(t.Context(), nudge.Config{URL: "nats://" + address}, nudge.Options{Name: "ingress"})
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	friend, err := nudge.Connect(t.Context(), nudge.Config{URL: local.URL()}, nudge.Options{Name: "ingress"})
	if err != nil {
		t.Fatal(err)
	}
	defer friend.Close()
	nudgetest.WaitConnected(t, friend)
	if stranger.Connected() {
		t.Error("admitted without the password")
	}
	url := local.URL()
	if err := local.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if local.URL() != url {
		t.Errorf("the restart moved it from %s to %s", url, local.URL())
	}
	nudgetest.WaitConnected(t, friend)
}

func keyPair(t *testing.T, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
	t.Helper()
	pair, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return pair, public
}

func encode(t *testing.T, claims jwt.Claims, by nkeys.KeyPair) string {
	t.Helper()
	token, err := claims.Encode(by)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// selfSigned writes a certificate for 127.0.0.1 that is its own authority.
func selfSigned(t *testing.T, certPath, keyPath string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "countersign test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		certPath: {Type: "CERTIFICATE", Bytes: der}, keyPath: {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

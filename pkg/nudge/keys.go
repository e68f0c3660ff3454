package nudge

import (
	"fmt"

	"github.com/nats-io/nkeys"
)

// NewUserSeed makes the seed (SU…) of a new NATS user, for COUNTERSIGN_NATS_NKEY_SEED. It is a secret.
func NewUserSeed() ([]byte, error) {
	user, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("make a NATS user: %w", err)
	}
	return user.Seed()
}

// UserKey is the public key (U…) that belongs to a user's seed: what ServerConfig names the user by. An error holds nothing of
// the seed.
func UserKey(seed []byte) (string, error) {
	user, err := nkeys.FromSeed(seed)
	if err != nil {
		return "", fmt.Errorf("read the seed of a NATS user: %w", err)
	}
	return user.PublicKey()
}

package githubsim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
)

// entityTag depends on what Vary names: the same bytes under another token have
// another tag.
func entityTag(r *http.Request, version string, payload []byte) string {
	h := sha256.New()
	for _, part := range []string{r.Header.Get("Authorization"), r.Header.Get("Accept"), version, r.URL.RequestURI()} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	h.Write(payload)
	return hex.EncodeToString(h.Sum(nil))
}

func tagMatches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if strings.Trim(strings.TrimPrefix(strings.TrimSpace(one), "W/"), `"`) == tag {
			return true
		}
	}
	return false
}

func requestID() string {
	b := randomBytes(12)
	return strings.ToUpper(fmt.Sprintf("%x:%x:%x:%x", b[:2], b[2:5], b[5:8], b[8:]))
}

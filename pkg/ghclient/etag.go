package ghclient

import (
	"net/http"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// The cache of validators holds bodies only to be able to use a 304: nothing is ever answered from it without GitHub saying, now and
// to a token that is valid now, that nothing changed. A 304 costs no primary budget.
const (
	cacheEntries   = 4096
	cacheBytes     = 64 << 20
	cacheBodyBytes = 4 << 20 // larger bodies are rare and would push out everything else
)

type cached struct {
	etag   string
	header http.Header
	body   []byte
}

type validators struct {
	mu    sync.Mutex // guards bytes and the pairing of lru changes with it
	lru   *lru.Cache[string, cached]
	bytes int
}

func newValidators() *validators {
	v := &validators{}
	v.lru, _ = lru.NewWithEvict(cacheEntries, func(_ string, c cached) { v.bytes -= len(c.body) }) // errs only for a size below 1
	return v
}

func (v *validators) get(key string) (cached, bool) { return v.lru.Get(key) }

// put keeps a 200 answer that has an entity tag.
func (v *validators) put(key string, a answer) {
	tag := a.header.Get("ETag")
	if tag == "" || len(a.body) > cacheBodyBytes {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lru.Remove(key) // so that the old body's size is given back
	v.lru.Add(key, cached{etag: tag, header: a.header, body: a.body})
	v.bytes += len(a.body)
	for v.bytes > cacheBytes && v.lru.Len() > 1 {
		v.lru.RemoveOldest()
	}
}

package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"
)

// admission decides which requests may start, by key, by rate, and by the number of running requests.
type admission struct {
	mu      sync.Mutex
	keys    []Key
	buckets map[string]*bucket // by owner
	limits  Limits
	running int
	closing bool
	now     func() time.Time
}

// bucket holds the usage of one owner. Rates are token buckets that refill over a minute.
type bucket struct {
	requests float64
	tokens   float64
	running  int
	filled   time.Time
	streams  map[holder]struct{} // running generations of keys with a limit of tokens
	held     bool                // the streams are held until tokens have refilled
}

// holder is a generation that can be held: it computes nothing until it is released.
type holder interface{ Hold(held bool) }

// permit allows one request to run until release.
type permit struct {
	of      *admission
	key     Key
	holders int // beside the request itself
}

func newAdmission(config *Config) *admission {
	a := &admission{buckets: map[string]*bucket{}, now: time.Now}
	a.configure(config)
	return a
}

func (a *admission) configure(config *Config) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys = config.Keys
	a.limits = config.Limits
}

// authenticate finds the key of a request: "Authorization: Bearer KEY" or "x-api-key: KEY".
func (a *admission) authenticate(r *http.Request) (Key, *Failure) {
	a.mu.Lock()
	keys := a.keys
	a.mu.Unlock()
	if len(keys) == 0 {
		return Key{}, nil
	}
	digest := keyDigest(r)
	var found *Key
	for i := range keys {
		// Compare every key, so that the time reveals nothing.
		if subtle.ConstantTimeCompare([]byte(strings.ToLower(keys[i].SHA256)), []byte(digest)) == 1 {
			found = &keys[i]
		}
	}
	if found == nil {
		return Key{}, &Failure{Status: http.StatusUnauthorized, Kind: "authentication_error", Code: "invalid_api_key",
			Message: "the API key is missing or unknown; send it as Authorization: Bearer KEY, or as x-api-key: KEY"}
	}
	return *found, nil
}

func keyDigest(r *http.Request) string {
	key := r.Header.Get("x-api-key")
	if bearer := r.Header.Get("Authorization"); strings.HasPrefix(bearer, "Bearer ") {
		key = strings.TrimPrefix(bearer, "Bearer ")
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func (k Key) mayUse(model string) bool {
	if len(k.Models) == 0 {
		return true
	}
	for _, name := range k.Models {
		if name == model {
			return true
		}
	}
	return false
}

// enter returns a permit, or a failure with the reason and the time to wait.
func (a *admission) enter(key Key) (*permit, *Failure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing {
		return nil, unavailable(5*time.Second, "the server is shutting down; send the request again later").Because("shutting_down")
	}
	if a.running >= a.limits.MaxQueue {
		return nil, overloaded(time.Second, "%d requests are running, which is the limit; send the request again later", a.running).
			Because("queue_full")
	}
	b := a.bucketOf(key)
	if key.MaxJobs > 0 && b.running >= key.MaxJobs {
		return nil, overloaded(time.Second, "%d requests of this key are running, which is its limit; wait until one has ended",
			b.running).
			Because("key_jobs")
	}
	if wait := missing(b.requests, 1, key.RequestsPerMinute); wait > 0 {
		return nil, overloaded(wait, "the key is limited to %d requests per minute; send the request again later",
			key.RequestsPerMinute).
			Because("key_requests")
	}
	if wait := missing(b.tokens, 1, key.TokensPerMinute); wait > 0 {
		return nil, overloaded(wait, "the key is limited to %d tokens per minute; send the request again later", key.TokensPerMinute).
			Because("key_tokens")
	}
	b.requests--
	b.running++
	a.running++
	return &permit{of: a, key: key}, nil
}

// missing returns the time until a bucket that fills at perMinute holds `need`; 0 if there is no limit.
func missing(has, need float64, perMinute int) time.Duration {
	if perMinute <= 0 || has >= need {
		return 0
	}
	return time.Duration((need - has) / float64(perMinute) * float64(time.Minute))
}

func (a *admission) bucketOf(key Key) *bucket {
	b, known := a.buckets[key.Owner]
	now := a.now()
	if !known {
		b = &bucket{requests: float64(key.RequestsPerMinute), tokens: float64(key.TokensPerMinute), filled: now,
			streams: map[holder]struct{}{}}
		a.buckets[key.Owner] = b
	}
	share := now.Sub(b.filled).Minutes()
	b.filled = now
	b.requests = refill(b.requests, share, key.RequestsPerMinute)
	b.tokens = refill(b.tokens, share, key.TokensPerMinute)
	return b
}

func refill(has, minutes float64, perMinute int) float64 {
	has += minutes * float64(perMinute)
	if has > float64(perMinute) {
		return float64(perMinute)
	}
	return has
}

// isMetered reports whether tokens are charged to the key.
func (p *permit) isMetered() bool { return p.key.TokensPerMinute > 0 }

// reserve charges the tokens of a prompt, or refuses them if the key has too few left.
func (p *permit) reserve(numTokens int) *Failure {
	limit := p.key.TokensPerMinute
	if !p.isMetered() {
		return nil
	}
	if numTokens > limit {
		return overloaded(0, "the prompt has %d tokens, but the key is limited to %d tokens per minute; shorten it",
			numTokens, limit).Because("key_tokens")
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	b := p.of.bucketOf(p.key)
	if wait := missing(b.tokens, float64(numTokens), limit); wait > 0 {
		return overloaded(wait, "the prompt has %d tokens, and the key is limited to %d tokens per minute; send it again later",
			numTokens, limit).Because("key_tokens")
	}
	b.tokens -= float64(numTokens)
	return nil
}

// spend subtracts computed tokens, or returns tokens if the number is negative. If too few are left for another
// step, all streams of the owner are held until the bucket has refilled.
func (p *permit) spend(numTokens int) {
	if !p.isMetered() || numTokens == 0 {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	b := p.of.bucketOf(p.key)
	b.tokens -= float64(numTokens)
	if !b.held && len(b.streams) > 0 && b.tokens < b.stepTokens(p.key) {
		b.hold(true)
		p.of.releaseLater(b, p.key)
	}
}

// stepTokens returns the tokens that one step of all streams takes, at most those of a minute.
func (b *bucket) stepTokens(key Key) float64 {
	if len(b.streams) == 0 {
		return 1
	}
	return math.Min(float64(len(b.streams)), float64(key.TokensPerMinute))
}

func (b *bucket) hold(held bool) {
	b.held = held
	for stream := range b.streams {
		stream.Hold(held)
	}
}

// releaseLater releases the streams once the bucket has the tokens of a step. The caller holds the mutex.
func (a *admission) releaseLater(b *bucket, key Key) {
	wait := missing(b.tokens, b.stepTokens(key), key.TokensPerMinute) + time.Millisecond
	time.AfterFunc(wait, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.bucketOf(key); b.tokens < b.stepTokens(key) {
			a.releaseLater(b, key)
			return
		}
		b.hold(false)
	})
}

// join adds a running generation, which is held while its key has no tokens left.
func (p *permit) join(stream holder) {
	if !p.isMetered() {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	b := p.of.bucketOf(p.key)
	b.streams[stream] = struct{}{}
	if b.held {
		stream.Hold(true)
	}
}

func (p *permit) leave(stream holder) {
	if !p.isMetered() {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	delete(p.of.bucketOf(p.key).streams, stream)
}

// retain makes one more release necessary.
func (p *permit) retain() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.holders++
}

func (p *permit) release() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.holders > 0 {
		p.holders--
		return
	}
	p.of.bucketOf(p.key).running--
	p.of.running--
}

// close makes enter refuse all further requests.
func (a *admission) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closing = true
}

func (a *admission) isClosing() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closing
}

func (a *admission) numRunning() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running
}

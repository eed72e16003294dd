package server

import (
	"math"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Headers about what a key may still use, under OpenAI's and Anthropic's names.

// rate is the state of one bucket of a key.
type rate struct {
	kind      string // "requests" or "tokens"
	limit     int    // of a minute; 0 means none
	remaining int
	reset     time.Duration // until the bucket is full
}

// rates returns the state of the buckets of a key.
func (a *admission) rates(key Key) []rate {
	if key.RequestsPerMinute <= 0 && key.TokensPerMinute <= 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.bucketOf(key)
	return []rate{newRate("requests", b.requests, key.RequestsPerMinute), newRate("tokens", b.tokens, key.TokensPerMinute)}
}

func newRate(kind string, has float64, perMinute int) rate {
	return rate{kind, perMinute, int(math.Max(0, math.Floor(has))), missing(has, float64(perMinute), perMinute)}
}

// setHeaders sets the headers of one bucket.
func (r *rate) setHeaders(header http.Header, anthropic bool, now time.Time) {
	limit, remaining := strconv.Itoa(r.limit), strconv.Itoa(r.remaining)
	if anthropic {
		prefix := "anthropic-ratelimit-" + r.kind
		header.Set(prefix+"-limit", limit)
		header.Set(prefix+"-remaining", remaining)
		header.Set(prefix+"-reset", now.Add(r.reset).UTC().Format(time.RFC3339))
		return
	}
	header.Set("x-ratelimit-limit-"+r.kind, limit)
	header.Set("x-ratelimit-remaining-"+r.kind, remaining)
	header.Set("x-ratelimit-reset-"+r.kind, r.reset.Round(time.Millisecond).String())
}

// rateHeaders are the names of all these headers, which pages of other origins may read.
var rateHeaders = func() string {
	header := http.Header{}
	for _, kind := range []string{"requests", "tokens"} {
		for _, anthropic := range []bool{false, true} {
			(&rate{kind: kind}).setHeaders(header, anthropic, time.Time{})
		}
	}
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, strings.ToLower(name))
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}()

// reportRates adds the headers once the status of the answer is known, with what has been charged until then.
func (s *Server) reportRates(e *exchange, r *http.Request, key Key) {
	e.beforeHeader = func() {
		rates := s.admission.rates(key)
		for i := range rates {
			if rates[i].limit > 0 {
				rates[i].setHeaders(e.Header(), isAnthropic(r), time.Now())
			}
		}
	}
}

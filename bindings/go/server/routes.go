package server

import (
	"math"
	"sync"
)

// Route sends requests to another model if all its conditions are met.
type Route struct {
	Model          string  `json:"model"` // name in the request; "" means any
	MinPromptBytes int     `json:"min_prompt_bytes"`
	MaxPromptBytes int     `json:"max_prompt_bytes"` // 0 means no limit
	MinRequests    int     `json:"min_requests"`     // running requests, including this one
	Owner          string  `json:"owner"`            // of the key; "" means any
	Share          float64 `json:"share"`            // part of the matching requests, 0 to 1; 0 means all
	To             string  `json:"to"`
}

// routedRequest holds the properties of a request that routes check.
type routedRequest struct {
	name        string // of a model or an alias
	owner       string
	promptBytes int
	requests    int // running requests
}

func (r *Route) fits(a routedRequest) bool {
	return (r.Model == "" || r.Model == a.name) && (r.Owner == "" || r.Owner == a.owner) &&
		a.promptBytes >= r.MinPromptBytes && (r.MaxPromptBytes == 0 || a.promptBytes <= r.MaxPromptBytes) &&
		a.requests >= r.MinRequests
}

// routeShares counts the matching requests of each route by its index, so that each route gets an even share.
type routeShares struct {
	mu  sync.Mutex
	fit map[int]float64
}

// take reports whether a route gets the next matching request.
func (s *routeShares) take(route int, share float64) bool {
	if share == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fit == nil {
		s.fit = map[int]float64{}
	}
	before := s.fit[route]
	s.fit[route]++
	return math.Floor((before+1)*share) > math.Floor(before*share)
}

func (s *routeShares) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fit = nil
}

// resolve returns the model for the name in a request. The first route that matches and takes the request
// applies, then an alias.
func (c *Config) resolve(a routedRequest, s *routeShares) (string, *Failure) {
	name := a.name
	for i := range c.Routes {
		if route := &c.Routes[i]; route.fits(a) && s.take(i, route.Share) {
			name = route.To
			break
		}
	}
	if target, is := c.Aliases[name]; is {
		name = target
	}
	if _, known := c.Models[name]; !known {
		return "", notFound("model_not_found", "there is no model %q; GET /v1/models lists the models", name)
	}
	return name, nil
}

package server

import (
	"math"
	"sync"
)

// Route sends requests to another model where all that it names is so.
type Route struct {
	Model          string  `json:"model"` // that the client named; "": any
	MinPromptBytes int     `json:"min_prompt_bytes"`
	MaxPromptBytes int     `json:"max_prompt_bytes"` // 0: any
	MinRequests    int     `json:"min_requests"`     // under way in the server, this one among them
	Owner          string  `json:"owner"`            // of the key
	Share          float64 `json:"share"`            // of the requests that fit, 0 to 1; 0: all of them
	To             string  `json:"to"`
}

// asked is what routes see of a request.
type asked struct {
	name        string // of a model or an alias
	owner       string
	promptBytes int
	requests    int // that are under way
}

func (r *Route) fits(a asked) bool {
	return (r.Model == "" || r.Model == a.name) && (r.Owner == "" || r.Owner == a.owner) &&
		a.promptBytes >= r.MinPromptBytes && (r.MaxPromptBytes == 0 || a.promptBytes <= r.MaxPromptBytes) &&
		a.requests >= r.MinRequests
}

// shares counts, by the place of a route, the requests that fit it, so that it gets its share of every few.
type shares struct {
	mu  sync.Mutex
	fit map[int]float64
}

// take tells whether a route gets the next request that fits it.
func (s *shares) take(route int, share float64) bool {
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

func (s *shares) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fit = nil
}

// resolve follows routes and aliases from the name in a request to that of a model: the first route that fits, and whose
// share the request falls into.
func (c *Config) resolve(a asked, s *shares) (string, *Failure) {
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
		return "", notFound("model_not_found", "there is no model %q; GET /v1/models lists those that there are", name)
	}
	return name, nil
}

package binary_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const soakClients = 64

// soakTime returns QUIRE_SERVER_SOAK_SECONDS, by default five seconds.
func soakTime(t *testing.T) time.Duration {
	text := os.Getenv("QUIRE_SERVER_SOAK_SECONDS")
	if text == "" {
		return 5 * time.Second
	}
	seconds, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(seconds) * time.Second
}

// soak counts the requests of all clients: complete, abandoned by the client, and failed.
type soak struct {
	whole, left, failed atomic.Int64
	firstFailure        atomic.Value
}

func (s *soak) fail(format string, args ...interface{}) {
	s.failed.Add(1)
	s.firstFailure.CompareAndSwap(nil, fmt.Sprintf(format, args...))
}

// stream sends one request. If `leaves`, it disconnects in the middle of the stream.
func (s *soak) stream(p *process, random *rand.Rand, leaves bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	body := fmt.Sprintf(`{"model":"story","prompt":"Once upon a time %d","stream":true,"max_tokens":%d,
		"logit_bias":{"1":-1000},"n":%d}`, random.Intn(100), 16+random.Intn(48), 1+random.Intn(2))
	request, _ := http.NewRequestWithContext(ctx, "POST", p.url+"/v1/completions", strings.NewReader(body))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.fail("%v", err)
		return
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	if leaves {
		for i := random.Intn(20); i >= 0; i-- {
			if _, err := lines.ReadString('\n'); err != nil {
				break
			}
		}
		s.left.Add(1)
		return
	}
	text, err := io.ReadAll(lines)
	if err != nil || response.StatusCode != http.StatusOK || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
		s.fail("%d %v %.300s", response.StatusCode, err, text)
		return
	}
	s.whole.Add(1)
}

// swap evicts the model, or reloads it with another configuration, once a second while requests use it.
func swap(p *process, configure func(round int), over <-chan struct{}) {
	for round := 0; ; round++ {
		select {
		case <-over:
			return
		case <-time.After(time.Second):
		}
		if round%2 == 0 {
			configure(round)
			p.signal(syscall.SIGHUP)
			continue
		}
		p.administer("POST", "/admin/models/story/evict")
	}
}

// administer returns the answer of the admin interface.
func (p *process) administer(method, path string) string {
	request, _ := http.NewRequest(method, p.url+path, nil)
	request.Header.Set("Authorization", "Bearer root")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Error(err)
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		p.t.Errorf("%s %s: %d %v %s", method, path, response.StatusCode, err, text)
	}
	return string(text)
}

// emptied evicts the model and checks that its memory returns to the system.
func (p *process) emptied(limit int64) {
	p.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	p.served()
	p.nothingRuns()
	if _, text := p.get("/metrics"); strings.Count(text, "\nquire_pages{") != 1 {
		p.t.Error("evicted models have left caches")
	}
	p.eventually(fmt.Sprintf("the model is evicted, and at most %d bytes are resident", limit), func() bool {
		p.administer("POST", "/admin/models/story/evict") // again, because a new configuration may have loaded it in the meantime
		return strings.Contains(p.administer("GET", "/admin/models"), "on disk") && p.residentBytes() <= limit
	})
}

// run keeps all clients busy for the given time. A third of them disconnect in the middle of each of their
// streams.
func (s *soak) run(p *process, configure func(round int), seed int64, length time.Duration) {
	over := make(chan struct{})
	var clients sync.WaitGroup
	for i := 0; i < soakClients; i++ {
		clients.Add(1)
		go func(i int) {
			defer clients.Done()
			random := rand.New(rand.NewSource(seed + int64(i)))
			for {
				select {
				case <-over:
					return
				default:
					s.stream(p, random, i%3 == 0)
				}
			}
		}(i)
	}
	clients.Add(1)
	go func() {
		defer clients.Done()
		swap(p, configure, over)
	}()
	time.Sleep(length)
	close(over)
	clients.Wait()
}

// Kinds of memory of a process.
const (
	goMemory    = "Go heap" // the heap of Go and its bookkeeping
	heapMemory  = "C heap"  // small allocations of the library
	bigMemory   = "large"   // large allocations: weights and pages
	codeMemory  = "files"   // programs, libraries and models
	otherMemory = "other"
)

// memory returns the resident memory of the process, by kind.
func (p *process) memory() map[string]int64 {
	found := map[string]int64{}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", p.command.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	kind := otherMemory
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-") && len(fields[1]) == 4:
			kind = kindOfMapping(fields)
		case len(fields) == 3 && fields[0] == "Rss:":
			kibibytes, _ := strconv.ParseInt(fields[1], 10, 64)
			found[kind] += kibibytes << 10
		}
	}
	return found
}

// kindOfMapping returns the kind of one line of smaps. Go places its heap at addresses below those that the
// kernel chooses. The allocator places arenas at multiples of 64 MiB.
func kindOfMapping(fields []string) string {
	from, to, _ := strings.Cut(fields[0], "-")
	begin, _ := strconv.ParseUint(from, 16, 64)
	end, _ := strconv.ParseUint(to, 16, 64)
	switch {
	case len(fields) > 5 && fields[5] == "[heap]":
		return heapMemory
	case len(fields) > 5 && !strings.HasPrefix(fields[5], "["):
		return codeMemory
	case begin>>32 != 0 && begin>>44 < 5:
		return goMemory
	case begin%(64<<20) == 0 && end-begin <= 64<<20:
		return heapMemory
	case end-begin >= 1<<20:
		return bigMemory
	}
	return otherMemory
}

// watchMemory records the least resident memory of each minute, because models and caches come and go.
func (p *process) watchMemory(over <-chan struct{}) (minutes []int64) {
	least, began := int64(1<<62), time.Now()
	for {
		select {
		case <-over:
			return minutes
		case <-time.After(100 * time.Millisecond):
		}
		if now := p.residentBytes(); now < least {
			least = now
		}
		if time.Since(began) >= time.Minute {
			minutes, least, began = append(minutes, least), 1<<62, time.Now()
		}
	}
}

// Allowed difference between the minima of two minutes, for a model that is loaded at the end of a minute.
const minuteBytes = 16 << 20

// requireFlat compares the last two minutes with the second and third.
func requireFlat(t *testing.T, minutes []int64) {
	t.Helper()
	if len(minutes) < 5 {
		return
	}
	least := func(of []int64) int64 {
		found := of[0]
		for _, bytes := range of {
			if bytes < found {
				found = bytes
			}
		}
		return found
	}
	early, late := least(minutes[1:3]), least(minutes[len(minutes)-2:])
	if late > early+minuteBytes {
		t.Errorf("%d bytes were resident in the second and third minute, %d in the last two", early, late)
	}
}

// Memory that a server may keep after its model was evicted: its own heap, threads, and free space between
// small allocations.
const keptBytes = 64 << 20

// SHA-256 of "root".
const rootDigest = "4813494d137e1631bba301d5acab6e7bb7aa74ce1185d456565ef51d737677b2"

func TestManyClientsWithDisconnectsLeaveNothingBehind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	configure := func(round int) {
		text := fmt.Sprintf(`{"models": {"story": {"path": %q, "preload": true, "max_jobs": 32, "cache_tokens": %d}},
			"admin": [%q]}`, modelPath(t), 16384+256*(round%4), rootDigest)
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Error(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Error(err)
		}
	}
	configure(0)
	p := start(t, "--config", file)
	p.logged("a model was loaded")
	seed := time.Now().UnixNano()
	length := soakTime(t)
	p.emptied(1 << 40)
	empty := p.residentBytes() + keptBytes
	t.Log("before the first request, resident: ", p.memory())
	var warm, s soak
	warm.run(p, configure, seed, 2*time.Second)
	p.emptied(empty)
	descriptors := p.descriptors()
	over, watched := make(chan struct{}), make(chan []int64)
	go func() { watched <- p.watchMemory(over) }()
	s.run(p, configure, seed+1000, length)
	close(over)
	minutes := <-watched
	t.Log("the least that was resident in each minute: ", minutes)
	requireFlat(t, minutes)
	if s.failed.Load() > 0 || s.whole.Load() == 0 || s.left.Load() == 0 {
		t.Errorf("seed %d: %d failed, %d whole, %d left: %v", seed, s.failed.Load(), s.whole.Load(), s.left.Load(),
			s.firstFailure.Load())
	}
	p.emptied(empty)
	p.eventually("the descriptors are closed", func() bool { return p.descriptors() <= descriptors+2 })
	t.Log("in the end, resident: ", p.memory())
	t.Logf("%v: %d whole, %d left, %d bytes more resident than before the first request", length, s.whole.Load(),
		s.left.Load(), p.residentBytes()-(empty-keptBytes))
}

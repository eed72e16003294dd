package story

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quire.dev/quire"
)

// crowd starts many jobs, pauses them all, and waits for each in its own goroutine. A paused job yields its
// turn to others, so the cache is idle only if all jobs are paused.
func crowd(t *testing.T, n int) (cache *quire.Cache, end func()) {
	t.Helper()
	model, _ := open(t)
	cache = must(model.NewCache(quire.CacheOptions{MaxTokens: 2048, MaxQueue: 2 * n}))
	endless := greedy("Once", 1900)
	endless.IgnoreEOS = true
	var jobs []*quire.Job
	var waiting sync.WaitGroup
	for len(jobs) < n {
		job := must(cache.Submit(endless))
		if err := job.Pause(); err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, job)
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			for {
				if _, err := job.Next(context.Background()); err != nil {
					return
				}
			}
		}()
	}
	return cache, func() {
		for _, job := range jobs {
			if err := job.Cancel(); err != nil {
				t.Error(err)
			}
		}
		waiting.Wait()
		for _, job := range jobs {
			_ = job.Close()
		}
		_ = cache.Close()
	}
}

// wakeups returns how often all threads together were woken so far.
func wakeups() int {
	sum := 0
	for _, path := range must(filepath.Glob("/proc/self/task/*/status")) {
		status, _ := os.ReadFile(path)
		for _, line := range strings.Split(string(status), "\n") {
			if count := strings.TrimPrefix(line, "voluntary_ctxt_switches:"); count != line {
				sum += must(strconv.Atoi(strings.TrimSpace(count)))
			}
		}
	}
	return sum
}

func numThreads() int {
	return len(must(filepath.Glob("/proc/self/task/*")))
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func TestAThousandWaitsBlockNoThreads(t *testing.T) {
	before := numThreads()
	alone := collection()
	cache, end := crowd(t, 1000)
	time.Sleep(time.Second) // until all wait
	if more := numThreads() - before; more > 8+runtime.NumCPU() {
		t.Errorf("%d threads more", more)
	}
	steps, woken, used := must(cache.Stats()).Steps, 0, 0.0
	for second := 0; second < 10; second++ { // Go's runtime may still do cleanup in the first seconds
		before, start, cpu := wakeups(), time.Now(), cpuTime()
		time.Sleep(time.Second)
		used = float64(cpuTime()-cpu) / float64(time.Since(start))
		if woken = wakeups() - before; woken <= 200 {
			break
		}
	}
	if more := must(cache.Stats()).Steps - steps; more != 0 || woken > 200 {
		t.Errorf("%d steps and %d wakeups while nothing happens", more, woken)
	}
	t.Logf("%d threads more, %d wakeups, %.1f %% of a core, a collection in %v, before in %v", numThreads()-before,
		woken, 100*used, collection(), alone)
	end()
}

// collection returns the shortest time of twenty garbage collections. Other programs only make one longer.
func collection() time.Duration {
	least := time.Hour
	for i := 0; i < 20; i++ {
		start := time.Now()
		runtime.GC()
		if took := time.Since(start); took < least {
			least = took
		}
	}
	return least
}

// A queue is signalled once for each step, so a reader that takes all events drains as often as the engine
// steps.
func TestAQueueIsDrainedOncePerStep(t *testing.T) {
	const numJobs, numTokens = 32, 256
	cache, queue := newCacheAndQueue(t, numJobs*512)
	request := greedy("Once upon a time", numTokens)
	request.IgnoreEOS, request.Queue = true, queue
	for _, job := range must(cache.SubmitMany(request, numJobs)) {
		defer job.Close()
	}
	drains, tokens := 0, 0
	for left := numJobs; left > 0; drains++ {
		for _, event := range must(queue.Drain(context.Background(), 1024)) {
			tokens += len(event.Tokens)
			if event.Finish != quire.FinishNone {
				left--
			}
		}
	}
	steps := must(cache.Stats()).Steps
	t.Logf("%d drains in %d steps for %d tokens", drains, steps, tokens)
	if tokens != numJobs*numTokens || float64(drains) > 1.2*float64(steps) {
		t.Errorf("%d drains in %d steps for %d tokens", drains, steps, tokens)
	}
}

func TestErrorsHaveTheirPrefixOnce(t *testing.T) {
	_, cache := open(t)
	if err := cache.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, err := cache.Submit(greedy("Once", 5))
	if want := "quire: closed: "; err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
		t.Error(err)
	}
}

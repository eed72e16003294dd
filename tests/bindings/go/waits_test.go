package story

import (
	"context"
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"quire.dev/quire"
)

// crowd has one job that runs and many that wait for it, each waited for by a goroutine of its own.
func crowd(t *testing.T, n int) (waiting *sync.WaitGroup, end func()) {
	t.Helper()
	model, _ := open(t)
	cache := must(model.NewCache(quire.CacheOptions{MaxTokens: 2048, MaxBatchSize: 1, MaxQueue: 2 * n}))
	endless := greedy("Once", 2000)
	endless.IgnoreEOS = true
	jobs := []*quire.Job{must(cache.Submit(endless))}
	must(jobs[0].Next(context.Background()))
	if err := jobs[0].Pause(); err != nil {
		t.Fatal(err)
	}
	for len(jobs) < n {
		jobs = append(jobs, must(cache.Submit(greedy("Once", 5))))
	}
	waiting = &sync.WaitGroup{}
	for _, job := range jobs[1:] {
		waiting.Add(1)
		go func(job *quire.Job) {
			defer waiting.Done()
			for {
				if _, err := job.Next(context.Background()); err != nil {
					return
				}
			}
		}(job)
	}
	return waiting, func() {
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

func TestAThousandWaitsHoldNoThreads(t *testing.T) {
	before := numThreads()
	_, end := crowd(t, 1000)
	time.Sleep(time.Second) // until all wait
	if more := numThreads() - before; more > 8+runtime.NumCPU() {
		t.Errorf("%d threads more", more)
	}
	start, cpu := time.Now(), cpuTime()
	time.Sleep(500 * time.Millisecond)
	used := float64(cpuTime()-cpu) / float64(time.Since(start))
	collect := time.Now()
	runtime.GC()
	t.Logf("%d threads more, %.1f %% of a core, a collection in %v", numThreads()-before, 100*used, time.Since(collect))
	end()
}

func TestACancelledContextOfASubmitEndsTheJob(t *testing.T) {
	_, cache := open(t)
	ctx, cancel := context.WithCancel(context.Background())
	endless := greedy("Once", 1900)
	endless.IgnoreEOS = true
	job := must(cache.SubmitContext(ctx, endless))
	defer job.Close()
	must(job.Next(context.Background()))
	cancel()
	if err := job.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if finish := must(job.Info()).Finish; finish != quire.FinishCancelled {
		t.Errorf("%v", finish)
	}
	if _, err := cache.SubmitContext(ctx, endless); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRandomCancelsLeaveNothing(t *testing.T) {
	_, cache := open(t)
	rounds := 200
	if os.Getenv("QUIRE_LONG_TESTS") != "" {
		rounds = 10000
	}
	random := rand.New(rand.NewSource(1))
	var jobs sync.WaitGroup
	for i := 0; i < rounds; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.Intn(5000))*time.Microsecond)
		jobs.Add(1)
		go func(ends, closes bool) {
			defer jobs.Done()
			defer cancel()
			job, err := cache.SubmitContext(ctx, greedy("Once upon a time", 20))
			if err != nil {
				return
			}
			for err == nil {
				if closes && job.Close() != nil {
					t.Error("close")
				}
				_, err = job.Next(ctx)
			}
			_ = job.Close()
		}(random.Intn(2) == 0, random.Intn(4) == 0)
		if i%50 == 49 {
			jobs.Wait()
		}
	}
	jobs.Wait()
	for stats := must(cache.Stats()); stats.JobsRunning+stats.JobsQueued+stats.PagesReferenced > 0; stats = must(cache.Stats()) {
		time.Sleep(time.Millisecond) // the end of a step
	}
}

func TestErrorsSayTheirPrefixOnce(t *testing.T) {
	_, cache := open(t)
	if err := cache.Shutdown(); err != nil {
		t.Fatal(err)
	}
	_, err := cache.Submit(greedy("Once", 5))
	if want := "quire: closed: "; err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
		t.Error(err)
	}
}

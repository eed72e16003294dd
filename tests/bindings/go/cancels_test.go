// Each way to end a job or a wait works at every stage and leaves nothing behind.
package story

import (
	"context"
	"errors"
	"math/rand"
	"sync"
	"testing"
	"time"

	"quire.dev/quire"
)

const (
	queued = iota
	inPrompt
	generating
	lastEvent
	afterTheEnd
	numStages
)

// jobAt returns a job at the stage. At queued, another job runs first in a cache for one job.
func jobAt(t *testing.T, ctx context.Context, stage int) (*quire.Cache, *quire.Job) {
	t.Helper()
	model, _ := open(t)
	cache := must(model.NewCache(quire.CacheOptions{MaxTokens: 2048, MaxBatchSize: 1, MaxChunkTokens: 4}))
	t.Cleanup(func() { cache.Close() })
	background, request := context.Background(), endless()
	switch {
	case stage == queued:
		holder := must(cache.Submit(endless()))
		must(holder.Next(background))
		t.Cleanup(func() { holder.Close() })
	case stage == inPrompt:
		request.Prompt, request.Tokens = "", make([]int32, 1900)
		request.MaxNewTokens, request.ProgressEvents = 100, true
	case stage >= lastEvent:
		request.MaxNewTokens = 3
	}
	job := must(cache.SubmitContext(ctx, request))
	t.Cleanup(func() { job.Close() })
	switch stage {
	case queued:
		if state := must(job.Info()).State; state != quire.StateQueued {
			t.Error(state)
		}
	case inPrompt:
		if event := must(job.Next(background)); event.Kind != quire.EventProgress {
			t.Errorf("%+v", event)
		}
	case generating:
		must(job.Next(background))
	case lastEvent:
		if err := job.Wait(background); err != nil {
			t.Error(err)
		}
	case afterTheEnd:
		drain(t, job)
	}
	return cache, job
}

// expectEnd waits for a job that was cancelled after the given number of tokens.
func expectEnd(t *testing.T, job *quire.Job, stage int, tokens int64) {
	t.Helper()
	if err := job.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	expected := quire.FinishCancelled
	if stage >= lastEvent {
		expected = quire.FinishLength
	}
	if info := must(job.Info()); info.Finish != expected || info.NewTokens > tokens+1 {
		t.Errorf("stage %d: %d tokens, then %+v", stage, tokens, info)
	}
	taken := 0
	for {
		event, err := job.Next(context.Background())
		if err != nil {
			break
		}
		taken += len(event.Tokens)
	}
	if stage == lastEvent && taken != 3 {
		t.Errorf("%d tokens of 3 came", taken)
	}
}

func TestACancelEndsTheJobWithinAStep(t *testing.T) {
	for stage := 0; stage < numStages; stage++ {
		_, job := jobAt(t, context.Background(), stage)
		if err := job.Cancel(); err != nil {
			t.Fatal(err)
		}
		expectEnd(t, job, stage, must(job.Info()).NewTokens)
	}
}

// A goroutine watches the context and may react late. The token counts are checked from the moment of its
// reaction on.
func TestACancelledContextOfASubmitEndsTheJob(t *testing.T) {
	for stage := 0; stage < numStages; stage++ {
		ctx, cancel := context.WithCancel(context.Background())
		cache, job := jobAt(t, ctx, stage)
		cancel()
		if err := job.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		expectEnd(t, job, stage, must(job.Info()).NewTokens)
		if _, err := cache.SubmitContext(ctx, endless()); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

func TestACancelledContextOfAWaitLeavesTheJob(t *testing.T) {
	for stage := queued; stage <= generating; stage++ {
		_, job := jobAt(t, context.Background(), stage)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- job.Wait(ctx) }()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if finish := must(job.Info()).Finish; finish != quire.FinishNone {
			t.Errorf("stage %d: %v", stage, finish)
		}
	}
}

func awaitIdle(cache *quire.Cache) {
	for stats := must(cache.Stats()); stats.JobsRunning+stats.JobsQueued+stats.PagesReferenced > 0; stats = must(cache.Stats()) {
		time.Sleep(time.Millisecond) // until the step ends
	}
}

func TestRandomCancelsLeaveNothing(t *testing.T) {
	_, cache := open(t)
	const rounds = 10000
	random := rand.New(rand.NewSource(1))
	var jobs sync.WaitGroup
	for i := 0; i < rounds; i++ {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.Intn(5000))*time.Microsecond)
		jobs.Add(1)
		go func(endsWaits, closes bool) {
			defer jobs.Done()
			defer cancel()
			job, err := cache.SubmitContext(ctx, greedy("Once upon a time", 20))
			if err != nil {
				return
			}
			wait := context.Background()
			if endsWaits {
				wait = ctx
			}
			for err == nil {
				if closes && job.Close() != nil {
					t.Error("close")
				}
				_, err = job.Next(wait)
			}
			_ = job.Close()
		}(random.Intn(2) == 0, random.Intn(4) == 0)
		if i%50 == 49 {
			jobs.Wait()
		}
	}
	jobs.Wait()
	awaitIdle(cache)
}

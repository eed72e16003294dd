package local

import (
	"context"
	"errors"
	"io"
	"sync"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// stream converts the events of one job to pieces of an answer. Next and Result are for one goroutine.
type stream struct {
	model       *model
	origin      origin // of its errors
	job         *quire.Job
	answer      *answer // nil if everything is text
	topLogProbs int
	tokenIDs    bool                  // pieces have the ids of their tokens
	keepStop    bool                  // what ends the answer is part of it
	ready       []server.Piece        // pieces to return next
	logProbs    []server.TokenLogProb // of tokens that are in no piece yet
	tokens      []int32               // those that are in no piece yet; only if tokenIDs
	reasoning   int                   // number of reasoning tokens
	over        bool
	result      server.Result

	mutex    sync.Mutex // protects the fields below
	progress server.Progress
	taken    int  // tokens of the events so far
	started  bool // progress has the cached tokens of the prompt
	complete bool // progress does not change any more
	held     bool
}

func asError(err error, target **quire.Error) bool { return errors.As(err, target) }

// Next waits for the next piece. If the client disconnects, ctx ends, and with it the job.
func (s *stream) Next(ctx context.Context) (server.Piece, error) {
	for len(s.ready) == 0 {
		if s.over {
			return server.Piece{}, io.EOF
		}
		event, err := s.job.Next(ctx)
		if err != nil {
			s.Close()
			if ctx.Err() != nil {
				return server.Piece{}, ctx.Err()
			}
			return server.Piece{}, s.model.failed(s.origin, err)
		}
		if err := s.take(&event); err != nil {
			return server.Piece{}, err
		}
	}
	piece := s.ready[0]
	s.ready = s.ready[1:]
	return piece, nil
}

// take converts an event to pieces and stores them in ready.
func (s *stream) take(event *quire.Event) error {
	if err := s.addLogProbs(event); err != nil {
		return err
	}
	if s.tokenIDs {
		s.tokens = append(s.tokens, event.Tokens...)
	}
	pieces := s.pieces(event)
	if s.answer != nil && s.answer.inReasoning() {
		s.reasoning += len(event.Tokens)
	}
	s.advance(event)
	if event.Usage != nil {
		s.finish(event)
		stop, err := s.stopPiece(event.Usage)
		if err != nil {
			return err
		}
		if stop.Text != "" || len(pieces) == 0 && len(s.logProbs)+len(s.tokens) > 0 {
			pieces = append(pieces, stop)
		}
	}
	for i := range pieces {
		if pieces[i].Kind == server.PieceText || pieces[i].Kind == server.PieceReasoning {
			pieces[i].LogProbs, s.logProbs = s.logProbs, nil
			pieces[i].Tokens, s.tokens = s.tokens, nil
			break
		}
	}
	if event.Usage != nil && len(s.logProbs)+len(s.tokens) > 0 {
		pieces = append(pieces, server.Piece{Kind: server.PieceText, LogProbs: s.logProbs, Tokens: s.tokens})
	}
	s.ready = pieces
	return nil
}

// stopPiece returns what ended the answer, if the client wants it: a stop text, or a stop token that is not special.
// Its text is empty otherwise.
func (s *stream) stopPiece(usage *quire.Usage) (server.Piece, error) {
	piece := server.Piece{Kind: server.PieceText, Text: usage.StopText}
	if s.answer != nil && s.answer.inReasoning() {
		piece.Kind = server.PieceReasoning
	}
	if !s.keepStop {
		piece.Text = ""
		return piece, nil
	}
	var err error
	if piece.Text == "" && usage.StopToken >= 0 {
		piece.Text, err = s.model.model.Decode([]int32{usage.StopToken}, true)
	}
	return piece, err
}

func (s *stream) pieces(event *quire.Event) []server.Piece {
	if s.answer == nil {
		if event.Text == "" && len(s.logProbs)+len(s.tokens) == 0 {
			return nil
		}
		return []server.Piece{{Kind: server.PieceText, Text: event.Text}}
	}
	if piece, ok := s.answer.piece(event); ok {
		return []server.Piece{piece}
	}
	return nil
}

func (s *stream) finish(event *quire.Event) {
	s.over = true
	s.result = server.Result{StopText: event.Usage.StopText, Usage: usageOf(event.Usage.PromptTokens,
		event.Usage.CachedTokens, event.Usage.NewTokens)}
	s.result.Usage.Reasoning = s.reasoning
	s.result.Usage.Drafted, s.result.Usage.Accepted = int(event.Usage.DraftTokens), int(event.Usage.AcceptedDraftTokens)
	s.result.Times = server.Times{Queued: event.Usage.TimeQueued, Prompt: event.Usage.TimePrompt,
		Generate: event.Usage.TimeGenerate}
	switch {
	case event.Finish == quire.FinishLength || event.Finish == quire.FinishMaxSeqLen || s.answer != nil && s.answer.numCut() > 0:
		s.result.Finish = server.FinishLength
	case s.answer != nil && s.answer.numCalls > 0:
		s.result.Finish = server.FinishCalls
	}
}

// advance counts the tokens of an event. The first event comes after the prompt, whose cached tokens are known then.
func (s *stream) advance(event *quire.Event) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if usage := event.Usage; usage != nil {
		s.progress = server.Progress{Usage: usageOf(usage.PromptTokens, usage.CachedTokens, usage.NewTokens),
			Started: true, Queued: usage.TimeQueued}
		s.settle()
		return
	}
	if !s.started {
		s.look()
	}
	if s.taken += len(event.Tokens); s.taken > s.progress.New {
		s.progress.New = s.taken
	}
}

// look takes the progress from the job. The caller holds the mutex.
func (s *stream) look() {
	info, err := s.job.Info()
	if err != nil {
		return
	}
	s.started = info.NewTokens > 0
	s.progress = server.Progress{Usage: usageOf(info.PromptTokens, info.CachedTokens, info.NewTokens),
		Started: s.started || info.TimePrompt > 0, Queued: info.TimeQueued}
}

// Progress returns what was computed so far.
func (s *stream) Progress() server.Progress {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.progress
}

// Hold pauses the job within a step, or resumes it.
func (s *stream) Hold(held bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if held == s.held || s.complete {
		return
	}
	s.held = held
	if held {
		s.model.held.Add(1)
		_ = s.job.Pause()
	} else {
		s.model.held.Add(-1)
		_ = s.job.Resume()
	}
}

// settle ends the changes of progress. The caller holds the mutex.
func (s *stream) settle() {
	s.complete = true
	if s.held {
		s.model.held.Add(-1)
		s.held = false
	}
}

func usageOf(prompt, cached, new int64) server.Usage {
	return server.Usage{Prompt: int(prompt), Cached: int(cached), New: int(new)}
}

func (s *stream) addLogProbs(event *quire.Event) error {
	if len(event.LogProbs) == 0 {
		return nil
	}
	numTop := len(event.TopTokens) / len(event.LogProbs)
	for i, token := range event.Tokens {
		entry, err := s.model.logProb(token, event.LogProbs[i])
		if err != nil {
			return err
		}
		for j := i * numTop; j < (i+1)*numTop && j-i*numTop < s.topLogProbs; j++ {
			other, err := s.model.logProb(event.TopTokens[j], event.TopLogProbs[j])
			if err != nil {
				return err
			}
			entry.Top = append(entry.Top, other)
		}
		s.logProbs = append(s.logProbs, entry)
	}
	return nil
}

func (m *model) logProb(token int32, value float32) (server.TokenLogProb, error) {
	bytes, err := m.model.TokenBytes(token)
	return server.TokenLogProb{ID: token, Token: string(bytes), Bytes: bytes, Log: float64(value)}, err
}

// Result returns the result of the generation.
func (s *stream) Result() server.Result { return s.result }

// Close ends the job within a step, if it is still running.
func (s *stream) Close() {
	s.mutex.Lock()
	if !s.complete {
		s.look() // tokens may have been computed whose events were not taken
		s.settle()
	}
	s.mutex.Unlock()
	_ = s.job.Close()
}

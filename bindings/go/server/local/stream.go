package local

import (
	"context"
	"errors"
	"io"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// stream turns the events of one job into pieces of an answer. Next and Result are for one goroutine.
type stream struct {
	model       *model
	job         *quire.Job
	topLogProbs int
	over        bool
	result      server.Result
}

func asError(err error, target **quire.Error) bool { return errors.As(err, target) }

// Next waits for the next piece. A client that goes away ends ctx, and that the job.
func (s *stream) Next(ctx context.Context) (server.Piece, error) {
	for !s.over {
		event, err := s.job.Next(ctx)
		if err != nil {
			s.Close()
			if ctx.Err() != nil {
				return server.Piece{}, ctx.Err()
			}
			return server.Piece{}, s.model.failed(err)
		}
		piece, err := s.piece(&event)
		if err != nil {
			return server.Piece{}, err
		}
		if event.Usage != nil {
			s.finish(&event)
		}
		if piece.Text != "" || len(piece.LogProbs) > 0 {
			return piece, nil
		}
	}
	return server.Piece{}, io.EOF
}

func (s *stream) finish(event *quire.Event) {
	s.over = true
	s.result = server.Result{StopText: event.Usage.StopText, Usage: usageOf(event.Usage.PromptTokens,
		event.Usage.CachedTokens, event.Usage.NewTokens)}
	if event.Finish == quire.Length || event.Finish == quire.MaxSeqLen {
		s.result.Finish = server.FinishLength
	}
}

func usageOf(prompt, cached, new int64) server.Usage {
	return server.Usage{Prompt: int(prompt), Cached: int(cached), New: int(new)}
}

func (s *stream) piece(event *quire.Event) (server.Piece, error) {
	piece := server.Piece{Kind: server.PieceText, Text: event.Text, NumToken: len(event.Tokens)}
	if len(event.LogProbs) == 0 {
		return piece, nil
	}
	numTop := len(event.TopTokens) / len(event.LogProbs)
	for i, token := range event.Tokens {
		entry, err := s.model.logProb(token, event.LogProbs[i])
		if err != nil {
			return piece, err
		}
		for j := i * numTop; j < (i+1)*numTop && j-i*numTop < s.topLogProbs; j++ {
			other, err := s.model.logProb(event.TopTokens[j], event.TopLogProbs[j])
			if err != nil {
				return piece, err
			}
			entry.Top = append(entry.Top, other)
		}
		piece.LogProbs = append(piece.LogProbs, entry)
	}
	return piece, nil
}

func (m *model) logProb(token int32, value float32) (server.TokenLogProb, error) {
	bytes, err := m.model.TokenBytes(token)
	return server.TokenLogProb{Token: string(bytes), Bytes: bytes, Log: float64(value)}, err
}

// Result is what the generation came to.
func (s *stream) Result() server.Result { return s.result }

// Close ends the job where it is not over, within a step.
func (s *stream) Close() {
	_ = s.job.Close()
}

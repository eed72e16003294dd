package local

import (
	"crypto/rand"
	"encoding/hex"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// answer reads what a model writes in the dialect of its family: text, reasoning and calls. One goroutine.
type answer struct {
	parser      *quire.ResponseParser
	callsAsText bool // the client wants no calls
	last        quire.ResponseKind
	numCalls    int // that are whole
}

// The end of a prompt that tells whether it has begun the model's reasoning.
const maxPromptEnd = 4096

// newAnswer makes the reader of the answer to a prompt.
func (m *model) newAnswer(g *server.Generation, promptEnd string) (*answer, error) {
	parser, err := quire.NewResponseParser(m.dialect)
	if err != nil {
		return nil, err
	}
	a := &answer{parser: parser, callsAsText: !wantsCalls(g)}
	if m.reasons {
		err = parser.SetPrompt(promptEnd)
	} else {
		err = parser.SetReasoning(quire.ReasoningOff)
	}
	if err == nil && !a.callsAsText {
		err = refusal("tools", parser.SetTools(string(g.Tools)))
	}
	if err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// wantsCalls tells whether the answer may have calls: of tools that are there, and that the client wants called.
func wantsCalls(g *server.Generation) bool { return g.Tools != nil && g.ToolChoice != "none" }

func (m *model) promptEnd(tokens []int32) (string, error) {
	if len(tokens) > maxPromptEnd {
		tokens = tokens[len(tokens)-maxPromptEnd:]
	}
	return m.model.Decode(tokens, false)
}

// reasoningStart is where the reasoning of the answer to a prompt begins, in the words of a response constraint.
func (m *model) reasoningStart(promptEnd string) (string, error) {
	if !m.reasons {
		return "off", nil
	}
	a, err := m.newAnswer(&server.Generation{}, promptEnd)
	if err != nil {
		return "", err
	}
	defer a.close()
	pieces, err := a.feed("x") // is it a thought?
	if err != nil {
		return "", err
	}
	rest, err := a.finish()
	for _, piece := range append(pieces, rest...) {
		if piece.Kind == server.PieceReasoning {
			return "open", err
		}
	}
	return "closed", err
}

// feed takes the next text of the answer and gives the pieces that it makes.
func (a *answer) feed(text string) ([]server.Piece, error) {
	if text == "" {
		return nil, nil
	}
	if err := a.parser.Feed(text); err != nil {
		return nil, err
	}
	return a.take()
}

// finish gives what was held back.
func (a *answer) finish() ([]server.Piece, error) {
	if err := a.parser.Finish(); err != nil {
		return nil, err
	}
	return a.take()
}

func (a *answer) take() ([]server.Piece, error) {
	var pieces []server.Piece
	for {
		more, err := a.parser.Next()
		if err != nil || !more {
			return pieces, err
		}
		event, err := a.parser.Event()
		if err != nil {
			return pieces, err
		}
		if piece, is := a.piece(&event); is {
			pieces = append(pieces, piece)
		}
	}
}

func (a *answer) piece(event *quire.ResponseEvent) (server.Piece, bool) {
	if event.Kind != quire.ResponseMarkup {
		a.last = event.Kind
	}
	if a.callsAsText && event.CallIndex >= 0 {
		return server.Piece{Kind: server.PieceText, Text: string(event.Raw)}, len(event.Raw) > 0
	}
	switch event.Kind {
	case quire.ResponseText:
		return server.Piece{Kind: server.PieceText, Text: event.Text}, event.Text != ""
	case quire.ResponseReasoning:
		return server.Piece{Kind: server.PieceReasoning, Text: event.Text}, event.Text != ""
	case quire.ResponseCallBegin:
		return server.Piece{Kind: server.PieceCallBegun, CallID: callID(event.ID), Name: event.Name}, true
	case quire.ResponseArguments:
		return server.Piece{Kind: server.PieceArguments, Text: event.Text}, event.Text != ""
	case quire.ResponseCallEnd:
		a.numCalls++
		return server.Piece{Kind: server.PieceCallEnded}, true
	}
	return server.Piece{}, false
}

// callID is the model's own id of a call, or one that is made here.
func callID(written string) string {
	if written != "" {
		return written
	}
	bytes := make([]byte, 12)
	_, _ = rand.Read(bytes)
	return "call_" + hex.EncodeToString(bytes)
}

func (a *answer) inReasoning() bool { return a.last == quire.ResponseReasoning }

func (a *answer) close() { _ = a.parser.Close() }

package local

import (
	"crypto/rand"
	"encoding/hex"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// answer converts the typed events of a job to pieces: text, reasoning and calls. For one goroutine.
type answer struct {
	callsAsText bool // the client does not want calls
	last        quire.ResponseKind
	numBegun    int // calls
	numCalls    int // completed calls
}

// wantsCalls reports whether the answer may contain calls: there are tools, and the client does not forbid
// calls.
func wantsCalls(g *server.Generation) bool { return g.Tools != nil && g.ToolChoice != "none" }

// piece converts an event. The result is false if the event has nothing for the client.
func (a *answer) piece(event *quire.Event) (server.Piece, bool) {
	if event.ResponseKind != quire.ResponseMarkup && event.ResponseKind != quire.ResponseNone {
		a.last = event.ResponseKind
	}
	if a.callsAsText && event.CallIndex >= 0 && event.ResponseKind != quire.ResponseNone {
		return server.Piece{Kind: server.PieceText, Text: event.Text}, event.Text != ""
	}
	text := event.ResponseText
	switch event.ResponseKind {
	case quire.ResponseText:
		return server.Piece{Kind: server.PieceText, Text: text}, text != ""
	case quire.ResponseReasoning:
		return server.Piece{Kind: server.PieceReasoning, Text: text}, text != ""
	case quire.ResponseCallBegin:
		a.numBegun++
		return server.Piece{Kind: server.PieceCallBegun, CallID: callID(event.CallID), Name: event.CallName}, true
	case quire.ResponseArguments:
		return server.Piece{Kind: server.PieceArguments, Text: text}, text != ""
	case quire.ResponseCallEnd:
		a.numCalls++
		return server.Piece{Kind: server.PieceCallEnded}, true
	}
	return server.Piece{}, false
}

// callID returns the model's own id of a call, or a random one.
func callID(written string) string {
	if written != "" {
		return written
	}
	bytes := make([]byte, 12)
	_, _ = rand.Read(bytes)
	return "call_" + hex.EncodeToString(bytes)
}

// numCut returns the number of calls that have begun but are not complete. At the end of an answer they were cut off, or
// the model has broken them off: their arguments are no valid JSON, and no client should act on them.
func (a *answer) numCut() int { return a.numBegun - a.numCalls }

func (a *answer) inReasoning() bool { return a.last == quire.ResponseReasoning }

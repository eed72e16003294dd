package local

import (
	"crypto/rand"
	"encoding/hex"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

// answer makes the typed events of a job into pieces: text, reasoning and calls. One goroutine.
type answer struct {
	callsAsText bool // the client wants no calls
	last        quire.ResponseKind
	numCalls    int // that are whole
}

// wantsCalls tells whether the answer may have calls: of tools that are there, and that the client wants called.
func wantsCalls(g *server.Generation) bool { return g.Tools != nil && g.ToolChoice != "none" }

// piece is what an event says, if it says anything to the client.
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
		return server.Piece{Kind: server.PieceCallBegun, CallID: callID(event.CallID), Name: event.CallName}, true
	case quire.ResponseArguments:
		return server.Piece{Kind: server.PieceArguments, Text: text}, text != ""
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

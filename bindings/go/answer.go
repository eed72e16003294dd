package quire

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// Answer collects the events of a job of a ChatEngine: text, reasoning and calls. For one goroutine at a time.
type Answer struct {
	text, reasoning, arguments strings.Builder
	calls                      []ToolCall
	begun                      *ToolCall // the last call that has begun
	reasoningTokens            int
	finish                     FinishReason
	usage                      *Usage
}

// Add takes the next event of the job.
func (a *Answer) Add(event Event) {
	switch event.ResponseKind {
	case ResponseText:
		a.text.WriteString(event.ResponseText)
	case ResponseReasoning:
		a.reasoning.WriteString(event.ResponseText)
		a.reasoningTokens += len(event.Tokens)
	case ResponseCallBegin:
		a.arguments.Reset()
		a.begun = &ToolCall{Index: int(event.CallIndex), ID: idOfCall(event.CallID), Name: event.CallName}
	case ResponseArguments:
		a.arguments.WriteString(event.ResponseText)
	case ResponseCallEnd:
		if call := a.Current(); call != nil {
			a.calls = append(a.calls, *call)
		}
	}
	if event.isLast() {
		a.finish, a.usage = event.Finish, event.Usage
	}
}

// idOfCall returns the model's own id, otherwise a new one. Results are matched with calls by their ids.
func idOfCall(own string) string {
	if own != "" {
		return own
	}
	var bytes [16]byte
	if _, err := rand.Read(bytes[:]); err != nil {
		panic(err) // the system has no source of random numbers
	}
	return "call_" + hex.EncodeToString(bytes[:])
}

// Current returns the last call that has begun, with the arguments so far; nil before the first.
func (a *Answer) Current() *ToolCall {
	if a.begun == nil {
		return nil
	}
	call := *a.begun
	call.Arguments = a.arguments.String()
	return &call
}

// Text returns the text for the user.
func (a *Answer) Text() string { return a.text.String() }

// Reasoning returns the reasoning.
func (a *Answer) Reasoning() string { return a.reasoning.String() }

// Calls returns the complete calls, without one that was cut off.
func (a *Answer) Calls() []ToolCall { return append([]ToolCall(nil), a.calls...) }

// ReasoningTokens returns the number of reasoning tokens, without markers.
func (a *Answer) ReasoningTokens() int { return a.reasoningTokens }

// Finish returns why the job ended; FinishNone before the end.
func (a *Answer) Finish() FinishReason { return a.finish }

// Usage returns the usage of the job; nil before the end.
func (a *Answer) Usage() *Usage { return a.usage }

// Message returns the answer as a message for the history of the conversation.
func (a *Answer) Message() Message {
	return Message{Role: RoleAssistant, Content: a.Text(), Reasoning: a.Reasoning(), Calls: a.Calls()}
}

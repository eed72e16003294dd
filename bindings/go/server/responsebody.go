package server

import (
	"encoding/json"
	"time"
)

// responseBody is the response object.
type responseBody struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	CreatedAt          int64              `json:"created_at"`
	Status             string             `json:"status"`
	Error              *responseError     `json:"error"`
	IncompleteDetails  *incompleteDetails `json:"incomplete_details"`
	Instructions       *string            `json:"instructions"`
	MaxOutputTokens    *int               `json:"max_output_tokens"`
	Model              string             `json:"model"`
	Output             []interface{}      `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PreviousResponseID *string            `json:"previous_response_id"`
	Temperature        *float64           `json:"temperature"`
	TopP               *float64           `json:"top_p"`
	ToolChoice         interface{}        `json:"tool_choice"`
	Tools              json.RawMessage    `json:"tools"`
	Metadata           map[string]string  `json:"metadata"`
	Usage              *responseUsage     `json:"usage,omitempty"`
	Background         bool               `json:"background"`
	CompletedAt        *int64             `json:"completed_at"`
	Conversation       *conversationID    `json:"conversation,omitempty"`
	MaxToolCalls       *int               `json:"max_tool_calls"`
	Reasoning          *reasoningBody     `json:"reasoning"`
	Store              bool               `json:"store"`
	Text               textBody           `json:"text"`
	TopLogProbs        int                `json:"top_logprobs"`
	Truncation         string             `json:"truncation"`
	User               string             `json:"user,omitempty"`
}

type conversationID struct {
	ID string `json:"id"`
}

type reasoningBody struct {
	Effort *string `json:"effort"`
}

type textBody struct {
	Format json.RawMessage `json:"format"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	InputTokens  int `json:"input_tokens"`
	InputDetails struct {
		Cached  int `json:"cached_tokens"`
		Written int `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens  int `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

func newResponseBody(request *responsesRequest) *responseBody {
	one := 1.0
	body := &responseBody{ID: newID("resp_"), Object: "response", CreatedAt: time.Now().Unix(), Status: statusInProgress,
		Instructions: request.Instructions, MaxOutputTokens: request.MaxOutputTokens, Model: request.Model,
		Output: []interface{}{}, PreviousResponseID: request.PreviousResponseID,
		ParallelToolCalls: request.ParallelToolCalls == nil || *request.ParallelToolCalls,
		Temperature:       &one, TopP: &one, ToolChoice: "auto", Tools: echoedTools(request.Tools),
		Metadata: map[string]string{}, Background: request.Background, MaxToolCalls: request.MaxToolCalls,
		Reasoning: &reasoningBody{}, Store: request.stores(), Text: textBody{json.RawMessage(`{"type":"text"}`)},
		Truncation: "disabled", User: request.User}
	if request.Metadata != nil {
		body.Metadata = request.Metadata
	}
	if request.Temperature != nil {
		body.Temperature = request.Temperature
	}
	if request.TopP != nil {
		body.TopP = request.TopP
	}
	if !isAbsent(request.ToolChoice) {
		body.ToolChoice = request.ToolChoice
	}
	if request.Conversation != nil {
		body.Conversation = &conversationID{string(*request.Conversation)}
	}
	if request.Reasoning != nil {
		body.Reasoning.Effort = request.Reasoning.Effort
	}
	if request.Text != nil && !isAbsent(request.Text.Format) {
		body.Text.Format = request.Text.Format
	}
	if request.TopLogProbs != nil {
		body.TopLogProbs = *request.TopLogProbs
	}
	if request.Truncation != nil {
		body.Truncation = *request.Truncation
	}
	return body
}

// echoedTools returns the tools of a request with all fields that an answer must have.
func echoedTools(tools json.RawMessage) json.RawMessage {
	var list []map[string]json.RawMessage
	if isAbsent(tools) || json.Unmarshal(tools, &list) != nil {
		return json.RawMessage("[]")
	}
	for _, tool := range list {
		for _, field := range []string{"parameters", "strict"} {
			if _, has := tool[field]; !has && tool != nil {
				tool[field] = json.RawMessage("null")
			}
		}
	}
	text, _ := json.Marshal(list)
	return text
}

// outputLogProb is the log-probability of a token in a text; alternatives have none of their own.
type outputLogProb struct {
	Token   string           `json:"token"`
	LogProb float64          `json:"logprob"`
	Bytes   []int            `json:"bytes"`
	Top     *[]outputLogProb `json:"top_logprobs,omitempty"`
}

func outputLogProbs(entries []TokenLogProb) []outputLogProb {
	out := make([]outputLogProb, len(entries))
	for i := range entries {
		top := make([]outputLogProb, len(entries[i].Top))
		for j := range top {
			top[j] = newOutputLogProb(&entries[i].Top[j])
		}
		out[i] = newOutputLogProb(&entries[i])
		out[i].Top = &top
	}
	return out
}

// Log-probability of a token that is never drawn, as in OpenAI's interface: JSON has no infinity.
const leastLogProb = -9999

func newOutputLogProb(entry *TokenLogProb) outputLogProb {
	out := outputLogProb{Token: entry.Token, LogProb: leastLogProb, Bytes: make([]int, len(entry.Bytes))}
	if entry.Log > leastLogProb {
		out.LogProb = entry.Log
	}
	for i, b := range entry.Bytes {
		out.Bytes[i] = int(b)
	}
	return out
}

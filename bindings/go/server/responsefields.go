package server

import "encoding/json"

// responsesRequest is the body of /v1/responses and /v1/responses/input_tokens.
type responsesRequest struct {
	commonFields
	Input              json.RawMessage   `json:"input"`
	Instructions       *string           `json:"instructions"`
	PreviousResponseID *string           `json:"previous_response_id"`
	Conversation       *conversationName `json:"conversation"`
	Store              *bool             `json:"store"`
	Background         bool              `json:"background"`
	Include            []string          `json:"include"`
	TopLogProbs        *int              `json:"top_logprobs"`
	MaxOutputTokens    *int              `json:"max_output_tokens"`
	MaxToolCalls       *int              `json:"max_tool_calls"`
	Tools              json.RawMessage   `json:"tools"`
	ToolChoice         json.RawMessage   `json:"tool_choice"`
	ParallelToolCalls  *bool             `json:"parallel_tool_calls"`
	Metadata           map[string]string `json:"metadata"`
	Truncation         *string           `json:"truncation"`
	Reasoning          *reasoningOptions `json:"reasoning"`
	Text               *textOptions      `json:"text"`
	User               string            `json:"user"` // only repeated in the answer
}

type reasoningOptions struct {
	Effort  *string `json:"effort"`
	Context *string `json:"context"`
	Mode    *string `json:"mode"`
}

type textOptions struct {
	Format    json.RawMessage `json:"format"`
	Verbosity *string         `json:"verbosity"`
}

// conversationName is the id of a conversation, or an object with it.
type conversationName string

func (n *conversationName) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, (*string)(n)) == nil {
		return nil
	}
	var object struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(text, &object) != nil || object.ID == "" {
		return invalid("conversation", "conversation must be the id of a conversation, or an object with its id")
	}
	*n = conversationName(object.ID)
	return nil
}

// Values of include that concern tools which the server does not run, or contents that are always there.
var passedIncludes = []string{"file_search_call.results", "web_search_call.results", "web_search_call.action.sources",
	"message.input_image.image_url", "computer_call_output.output.image_url", "code_interpreter_call.outputs",
	"reasoning.encrypted_content"}

const includeLogProbs = "message.output_text.logprobs"

// Names that the fields of chat completions have in this interface.
var responsesNames = map[string]string{"messages": "input", "response_format": "text.format",
	"max_tokens": "max_output_tokens", "reasoning_effort": "reasoning.effort"}

// check refuses values that the server cannot honour.
func (r *responsesRequest) check() error {
	for _, err := range []error{r.checkLogProbs(), r.checkNumbers(), r.checkOptions(), checkMetadata(r.Metadata)} {
		if err != nil {
			return err
		}
	}
	if r.PreviousResponseID != nil && r.Conversation != nil {
		return invalid("conversation", "conversation excludes previous_response_id")
	}
	if r.Background && !r.stores() {
		return invalid("background", "background needs store: the response is read with GET /v1/responses/ID")
	}
	return nil
}

func (r *responsesRequest) stores() bool { return r.Store == nil || *r.Store }

func (r *responsesRequest) wantsLogProbs() bool { return isListed(includeLogProbs, r.Include) }

func (r *responsesRequest) checkLogProbs() error {
	for i, name := range r.Include {
		if name != includeLogProbs && !isListed(name, passedIncludes) {
			return invalid("include", "include[%d] is %q, which is not supported", i, name)
		}
	}
	if r.TopLogProbs == nil {
		return nil
	}
	if *r.TopLogProbs < 0 || *r.TopLogProbs > 20 {
		return invalid("top_logprobs", "top_logprobs must be from 0 to 20, not %d", *r.TopLogProbs)
	}
	if *r.TopLogProbs > 0 && !r.wantsLogProbs() {
		return invalid("top_logprobs", "top_logprobs needs %s in include", includeLogProbs)
	}
	return nil
}

func (r *responsesRequest) checkNumbers() error {
	if r.MaxOutputTokens != nil && *r.MaxOutputTokens < 1 {
		return invalid("max_output_tokens", "max_output_tokens must be 1 or more, not %d", *r.MaxOutputTokens)
	}
	if r.MaxToolCalls != nil && *r.MaxToolCalls < 0 {
		return invalid("max_tool_calls", "max_tool_calls must be 0 or more, not %d", *r.MaxToolCalls)
	}
	return nil
}

func (r *responsesRequest) checkOptions() error {
	if r.Truncation != nil && *r.Truncation != "auto" && *r.Truncation != "disabled" {
		return invalid("truncation", "truncation must be auto or disabled, not %q", *r.Truncation)
	}
	if err := r.Reasoning.check(); err != nil {
		return err
	}
	if r.Text == nil {
		return nil
	}
	if r.Text.Verbosity != nil && *r.Text.Verbosity != "medium" {
		return invalid("text.verbosity", "text.verbosity cannot be honoured; ask for a length in instructions")
	}
	return checkTextFormat(r.Text.Format)
}

func (o *reasoningOptions) check() error {
	switch {
	case o == nil:
	case o.Effort != nil && !isListed(*o.Effort, efforts):
		return invalid("reasoning.effort", "reasoning.effort must be one of %v, not %q", efforts, *o.Effort)
	case o.Context != nil && *o.Context != "auto":
		return invalid("reasoning.context", "reasoning.context must be auto: the template decides which reasoning is kept")
	case o.Mode != nil && *o.Mode != "standard":
		return invalid("reasoning.mode", "reasoning.mode must be standard, not %q", *o.Mode)
	}
	return nil
}

var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

func checkTextFormat(format json.RawMessage) error {
	if isAbsent(format) {
		return nil
	}
	var fields struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	}
	if json.Unmarshal(format, &fields) != nil {
		return invalid("text.format", "text.format must be an object with its type")
	}
	switch fields.Type {
	case "text", "json_object":
		return nil
	case "json_schema":
		if isAbsent(fields.Schema) {
			return invalid("text.format", "text.format.schema is missing")
		}
		return nil
	}
	return invalid("text.format", "text.format.type must be text, json_object or json_schema, not %q", fields.Type)
}

// Limits of metadata, as in OpenAI's interface.
const (
	maxMetadata      = 16
	maxMetadataKey   = 64
	maxMetadataValue = 512
)

func checkMetadata(metadata map[string]string) error {
	if len(metadata) > maxMetadata {
		return invalid("metadata", "metadata may have %d entries, not %d", maxMetadata, len(metadata))
	}
	for key, value := range metadata {
		if len([]rune(key)) > maxMetadataKey {
			return invalid("metadata", "a key of metadata may have %d characters, not %d", maxMetadataKey, len([]rune(key)))
		}
		if len([]rune(value)) > maxMetadataValue {
			return invalid("metadata", "metadata.%s may have %d characters, not %d", key, maxMetadataValue, len([]rune(value)))
		}
	}
	return nil
}

// format returns text.format in the form of chat completions; nil for text.
func (r *responsesRequest) format() json.RawMessage {
	if r.Text == nil || isAbsent(r.Text.Format) {
		return nil
	}
	var flat struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(r.Text.Format, &flat) != nil || flat.Type == "text" {
		return nil
	}
	if flat.Type != "json_schema" {
		return r.Text.Format
	}
	text, _ := json.Marshal(map[string]interface{}{"type": "json_schema", "json_schema": r.Text.Format})
	return text
}

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Failure is an error that is sent to the client, in the format of its interface.
type Failure struct {
	Status     int
	Kind       string // OpenAI's type: "invalid_request_error", ...
	Code       string
	Param      string // field at fault
	Message    string
	RetryAfter time.Duration // 0 means unknown
	Cause      error         // only for the log; may be nil
	Reason     string        // word for the log and the metrics; "" means that of the code or the status

	named bool // Param is the client's own name, whatever the interface
}

func (f *Failure) Error() string {
	if f.Cause != nil {
		return f.Message + ": " + f.Cause.Error()
	}
	return f.Message
}

// Because sets the reason.
func (f *Failure) Because(reason string) *Failure {
	f.Reason = reason
	return f
}

// Reasons of failures without a code.
var statusReasons = map[int]string{http.StatusBadRequest: "invalid_request", http.StatusForbidden: "forbidden",
	http.StatusNotFound: "not_found", http.StatusMethodNotAllowed: "method_not_allowed",
	http.StatusRequestTimeout: "body_timeout", http.StatusRequestEntityTooLarge: "body_too_large"}

// reason returns one of a bounded number of words.
func (f *Failure) reason() string {
	if f.Reason != "" {
		return f.Reason
	}
	if f.Code != "" {
		return f.Code
	}
	if reason, known := statusReasons[f.Status]; known {
		return reason
	}
	return "internal"
}

func invalid(param, format string, args ...interface{}) *Failure {
	return &Failure{Status: http.StatusBadRequest, Kind: "invalid_request_error", Param: param,
		Message: fmt.Sprintf(format, args...)}
}

// PromptTooLong returns the failure of a prompt that exceeds the context. Clients recognize it by its code, and those of
// interfaces without codes by the words "prompt is too long".
func PromptTooLong(param, format string, args ...interface{}) *Failure {
	failure := invalid(param, "the prompt is too long: "+format, args...)
	failure.Code = "context_length_exceeded"
	return failure
}

func notFound(code, format string, args ...interface{}) *Failure {
	return &Failure{Status: http.StatusNotFound, Kind: "invalid_request_error", Code: code,
		Message: fmt.Sprintf(format, args...)}
}

func overloaded(retryAfter time.Duration, format string, args ...interface{}) *Failure {
	return &Failure{Status: http.StatusTooManyRequests, Kind: "rate_limit_error", Code: "rate_limit_exceeded",
		Message: fmt.Sprintf(format, args...), RetryAfter: retryAfter}
}

func unavailable(retryAfter time.Duration, format string, args ...interface{}) *Failure {
	return &Failure{Status: http.StatusServiceUnavailable, Kind: "server_error", Code: "service_unavailable",
		Message: fmt.Sprintf(format, args...), RetryAfter: retryAfter}
}

// failureOf returns the Failure in err, or a general one: the text of an unknown error may contain
// information that the client must not see.
func failureOf(err error) *Failure {
	var failure *Failure
	if errors.As(err, &failure) {
		return failure
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Failure{Status: http.StatusGatewayTimeout, Kind: "server_error", Code: "timeout",
			Message: "the deadline of the request has passed; ask for fewer tokens, or for more time with x-request-timeout"}
	}
	return &Failure{Status: http.StatusInternalServerError, Kind: "server_error",
		Message: "the request failed inside the server; its log has the reason, beside the x-request-id of the answer"}
}

// Maximum length of a message to a client; messages quote input of the client.
const maxMessageBytes = 1000

func (f *Failure) shortMessage() string {
	if len(f.Message) <= maxMessageBytes {
		return f.Message
	}
	return strings.ToValidUTF8(f.Message[:maxMessageBytes], "") + "..."
}

// openAIBody returns the failure in OpenAI's format.
func (f *Failure) openAIBody() []byte {
	type body struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	out := body{Message: f.shortMessage(), Type: f.Kind}
	if f.Param != "" {
		out.Param = &f.Param
	}
	if f.Code != "" {
		out.Code = &f.Code
	}
	text, _ := json.Marshal(map[string]body{"error": out})
	return text
}

// anthropicBody returns the failure in Anthropic's format.
func (f *Failure) anthropicBody(requestID string) []byte {
	kind := map[int]string{
		http.StatusBadRequest: "invalid_request_error", http.StatusUnauthorized: "authentication_error",
		http.StatusForbidden: "permission_error", http.StatusNotFound: "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large", http.StatusTooManyRequests: "rate_limit_error",
		http.StatusServiceUnavailable: "overloaded_error", http.StatusGatewayTimeout: "timeout_error",
	}[f.Status]
	if kind == "" {
		kind = "api_error"
	}
	body := map[string]interface{}{"type": kind, "message": f.shortMessage()}
	if f.Code == threadUnsupported {
		body["details"] = map[string]interface{}{"error_code": f.Code, "unsupported": []string{f.Param}}
	}
	text, _ := json.Marshal(map[string]interface{}{"type": "error", "request_id": requestID, "error": body})
	return text
}

// ollamaBody returns the failure in ollama's format, which has only a text.
func (f *Failure) ollamaBody() []byte {
	text, _ := json.Marshal(map[string]string{"error": f.shortMessage()})
	return text
}

func (f *Failure) setHeaders(header http.Header) {
	if f.RetryAfter > 0 {
		seconds := int64((f.RetryAfter + time.Second - 1) / time.Second)
		header.Set("Retry-After", strconv.FormatInt(seconds, 10))
	} else if f.Status == http.StatusTooManyRequests { // the request exceeds a limit for ever; official clients read this
		header.Set("x-should-retry", "false")
	}
}

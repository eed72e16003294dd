package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"quire.dev/quire"
	"quire.dev/quire/server"
)

func invalid(param, format string, args ...interface{}) *server.Failure {
	return &server.Failure{Status: http.StatusBadRequest, Kind: "invalid_request_error", Param: param,
		Message: fmt.Sprintf(format, args...)}
}

func unavailable(format string, args ...interface{}) *server.Failure {
	return &server.Failure{Status: http.StatusServiceUnavailable, Kind: "server_error", Code: "service_unavailable",
		Message: fmt.Sprintf(format, args...), RetryAfter: time.Second}
}

func gone(name string) *server.Failure {
	return unavailable("the model %q is not there any more; send the request again", name)
}

// loadFailure is what clients are told of a model that cannot be loaded: the log says why, which may name files.
func loadFailure(name string, err error) error {
	if errors.Is(err, quire.OutOfMemory) {
		failure := unavailable("there is no room for the model %q now", name)
		failure.RetryAfter = retryAfter
		return failure
	}
	failure := unavailable("the model %q cannot be loaded", name)
	failure.RetryAfter = retryAfter
	return failure
}

// refusal is what the library says of something that the client sent, in the field `param`. What is not the client's
// doing is told as it is.
func refusal(param string, err error) error {
	var failed *quire.Error
	if !errors.As(err, &failed) {
		return err
	}
	switch failed.Code {
	case quire.InvalidArgument, quire.Format, quire.Unsupported, quire.Encoding, quire.Capacity, quire.NotFound,
		quire.TooLarge:
		return invalid(param, "%s", failed.Message)
	}
	return jobFailure(err)
}

// settingName is the name of a setting with which a message of the library begins.
var settingName = regexp.MustCompile(`^[a-z][a-z_]*[a-z]`)

var settings = map[string]bool{"temperature": true, "top_p": true, "top_k": true, "min_p": true, "seed": true,
	"frequency_penalty": true, "presence_penalty": true, "repetition_penalty": true, "logit_bias": true,
	"priority": true, "top_log_probs": true, "messages": true, "tools": true}

// ofTemplate tells whether a message is about what the chat template makes of the messages.
func ofTemplate(message string) bool {
	return strings.HasPrefix(message, "chat template") || strings.HasPrefix(message, "input")
}

// jobFailure is why a job was refused or came to no end.
func jobFailure(err error) error {
	var failed *quire.Error
	if !errors.As(err, &failed) {
		return err
	}
	if ofTemplate(failed.Message) {
		return invalid("messages", "%s", failed.Message)
	}
	switch failed.Code {
	case quire.InvalidArgument, quire.Unsupported, quire.Encoding, quire.Format:
		param := settingName.FindString(failed.Message)
		if !settings[param] {
			param = ""
		}
		return invalid(param, "%s", failed.Message)
	case quire.TooLarge:
		failure := invalid("messages", "%s", failed.Message)
		failure.Code = "context_length_exceeded"
		return failure
	case quire.Capacity, quire.Quota:
		return &server.Failure{Status: http.StatusTooManyRequests, Kind: "rate_limit_error", Code: "rate_limit_exceeded",
			Message: failed.Message, RetryAfter: time.Second}
	case quire.Deadline, quire.DeadlineTooShort:
		return fmt.Errorf("%s: %w", failed.Message, context.DeadlineExceeded)
	case quire.Closed, quire.DeviceLost, quire.OutOfMemory:
		failure := unavailable("the model cannot go on; send the request again")
		failure.Cause = err
		return failure
	}
	return err
}

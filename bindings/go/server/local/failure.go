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
	return unavailable("the model %q is no longer available; send the request again", name)
}

// loadFailure returns the error for clients. The reason, which may name files, is only in the log.
func loadFailure(name string, err error) error {
	if errors.Is(err, quire.OutOfMemory) {
		failure := unavailable("not enough memory for the model %q now; try again later", name)
		failure.RetryAfter = retryAfter
		return failure
	}
	failure := unavailable("the model %q cannot be loaded", name)
	failure.RetryAfter = retryAfter
	return failure
}

// refusal converts an error of the library about the client's field `param`. Errors that are not the client's
// fault are unchanged.
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

// settingName matches the name of a setting at the beginning of an error of the library.
var settingName = regexp.MustCompile(`^[a-z][a-z_]*[a-z]`)

var settings = map[string]bool{"temperature": true, "top_p": true, "top_k": true, "min_p": true, "seed": true,
	"frequency_penalty": true, "presence_penalty": true, "repetition_penalty": true, "logit_bias": true,
	"priority": true, "top_log_probs": true, "messages": true, "tools": true}

// ofTemplate reports whether an error comes from rendering the chat template.
func ofTemplate(message string) bool {
	return strings.HasPrefix(message, "chat template") || strings.HasPrefix(message, "input")
}

// jobFailure converts the reason why a job was refused or failed.
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
		failure := unavailable("the model was closed or lost its device; send the request again")
		failure.Cause = err
		return failure
	}
	return err
}

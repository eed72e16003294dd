package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	var never *neverFits
	if errors.As(err, &never) {
		failure := unavailable("the model %q needs more memory than this server has; use another model", name)
		failure.RetryAfter = 0
		return failure.Because("never_fits")
	}
	if errors.Is(err, quire.CodeOutOfMemory) {
		failure := unavailable("not enough memory for the model %q now; try again later", name)
		failure.RetryAfter = retryAfter
		return failure
	}
	failure := unavailable("the model %q cannot be loaded; the log of the server has the reason", name)
	failure.RetryAfter = retryAfter
	return failure
}

// fields has the field of a request for each parameter of the library that clients can set, except the prompt.
var fields = map[string]string{"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p",
	"seed": "seed", "random_seed": "seed", "frequency_penalty": "frequency_penalty",
	"presence_penalty": "presence_penalty", "repetition_penalty": "repetition_penalty", "logit_biases": "logit_bias",
	"guidance_scale": "guidance_scale", "negative_prompt": "negative_prompt", "stop_texts": "stop",
	"max_new_tokens": "max_tokens", "ignore_eos": "ignore_eos", "top_log_probs": "top_logprobs", "priority": "priority",
	"reasoning_budget": "reasoning_budget", "messages": "messages", "chat_template": "messages", "tools": "tools",
	"template_arguments": "chat_template_kwargs", "tool_choice": "tool_choice", "response_format": "response_format",
	"grammar": "grammar", "banned_texts": "bad_words", "banned_tokens": "allowed_token_ids",
	"min_new_tokens": "min_tokens", "stop_tokens": "stop_token_ids", "add_special": "add_special_tokens",
	"json_order": "json_order", "json_space": "json_space", "penalty_range": "repeat_last_n", "typical": "typical_p",
	"top_n_sigma": "top_n_sigma", "xtc_probability": "xtc_probability", "xtc_threshold": "xtc_threshold",
	"dry_multiplier": "dry_multiplier", "dry_base": "dry_base", "dry_allowed_length": "dry_allowed_length",
	"dry_range": "dry_penalty_last_n", "mirostat_tau": "mirostat_tau", "mirostat_eta": "mirostat_eta",
	"min_temperature": "dynatemp_range", "max_temperature": "dynatemp_range",
	"temperature_exponent": "dynatemp_exponent"}

// field returns the field of a request that an error of the library is about; `otherwise` if clients cannot set its
// parameter.
func field(failed *quire.Error, otherwise string) string {
	if name, known := fields[failed.Parameter]; known {
		return name
	}
	return otherwise
}

// refusal converts an error of the library about the client's field `param`, or about the field that the error names.
// Errors that are not the client's fault are unchanged.
func refusal(param string, err error) error {
	var failed *quire.Error
	if !errors.As(err, &failed) {
		return err
	}
	switch failed.Code {
	case quire.CodeInvalidArgument, quire.CodeFormat, quire.CodeUnsupported, quire.CodeEncoding, quire.CodeCapacity, quire.CodeNotFound,
		quire.CodeTooLarge:
		return invalid(field(failed, param), "%s", failed.Message)
	}
	return jobFailure(origin{prompt: param}, err)
}

// origin has the fields of a request that contained the prompt of its job and the constraint of its answer.
type origin struct {
	prompt, constraint string
}

// field returns the field that an error of a job is about; "" if clients cannot set its parameter.
func (o origin) field(failed *quire.Error) string {
	switch failed.Parameter {
	case "prompt":
		return o.prompt
	case "constraint":
		return o.constraint
	}
	return field(failed, "")
}

// outgrown has the parameters whose settings can exceed a limit while the job runs. The same request would fail again,
// while other errors of capacity pass as other jobs end.
var outgrown = map[string]bool{"constraint": true, "banned_texts": true}

// jobFailure converts the reason why a job was refused or failed.
func jobFailure(from origin, err error) error {
	var failed *quire.Error
	if !errors.As(err, &failed) {
		return err
	}
	if failed.Parameter == "messages" { // they, or what the chat template makes of them
		return invalid("messages", "%s", failed.Message)
	}
	if failed.Code == quire.CodeCapacity && outgrown[failed.Parameter] {
		return invalid(from.field(failed), "%s", failed.Message)
	}
	switch failed.Code {
	case quire.CodeInvalidArgument, quire.CodeUnsupported, quire.CodeEncoding, quire.CodeFormat:
		return invalid(from.field(failed), "%s", failed.Message)
	case quire.CodeTooLarge:
		param := field(failed, from.prompt)
		if param == from.prompt {
			return server.PromptTooLong(param, "%s", failed.Message)
		}
		failure := invalid(param, "%s", failed.Message)
		failure.Code = "context_length_exceeded"
		return failure
	case quire.CodeCapacity, quire.CodeQuota:
		return &server.Failure{Status: http.StatusTooManyRequests, Kind: "rate_limit_error", Code: "rate_limit_exceeded",
			Message: failed.Message, RetryAfter: time.Second}
	case quire.CodeDeadline, quire.CodeDeadlineTooShort:
		return fmt.Errorf("%s: %w", failed.Message, context.DeadlineExceeded)
	case quire.CodeClosed, quire.CodeDeviceLost, quire.CodeOutOfMemory:
		failure := unavailable("the model was closed or lost its device; send the request again")
		failure.Cause = err
		return failure
	}
	return err
}

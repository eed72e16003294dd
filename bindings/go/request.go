package quire

import "quire.dev/quire/internal/native"

// PromptPart is one part of a prompt: the first of its fields that is set.
type PromptPart struct {
	Messages string  // a message, or a list of them, in JSON as OpenAI has them: the chat template makes them into tokens
	Special  string  // one special token, as the tokenizer's file spells it, such as "<|im_end|>"
	Tokens   []int32 // ids of tokens, taken as they are
	Text     string  // tokenized at submit, by itself
}

func (r *Request) fillRest(s *settings[native.JobRequestHandle]) {
	r.fillPrompt(s)
	r.fillBiases(s)
	if r.Queue != nil {
		share(s, native.Quire_job_request_set_queue, r.Queue.handle)
	}
}

func (r *Request) fillPrompt(s *settings[native.JobRequestHandle]) {
	switch {
	case len(r.Parts) > 0:
		s.apply(native.Quire_job_request_clear_prompt)
		for _, part := range r.Parts {
			part.add(s)
		}
	case r.Tokens != nil:
		s.apply(func(request native.JobRequestHandle, e *native.ErrorHandle) int32 {
			return native.Quire_job_request_set_prompt_tokens(request, r.Tokens, e)
		})
	default:
		set(s, native.Quire_job_request_set_prompt_text, r.Prompt)
	}
}

func (p *PromptPart) add(s *settings[native.JobRequestHandle]) {
	s.apply(func(request native.JobRequestHandle, e *native.ErrorHandle) int32 {
		switch {
		case p.Messages != "":
			return native.Quire_job_request_add_messages(request, p.Messages, e)
		case p.Special != "":
			return native.Quire_job_request_add_prompt_special(request, p.Special, e)
		case p.Tokens != nil:
			return native.Quire_job_request_add_prompt_tokens(request, p.Tokens, e)
		}
		return native.Quire_job_request_add_prompt_text(request, p.Text, e)
	})
}

// fillBiases hands tokens of one and the same bias over in one call.
func (r *Request) fillBiases(s *settings[native.JobRequestHandle]) {
	tokens, same := make([]int32, 0, len(r.LogitBias)), true
	var first float64
	for token, bias := range r.LogitBias {
		if len(tokens) == 0 {
			first = bias
		}
		tokens, same = append(tokens, token), same && bias == first
	}
	if same && len(tokens) > 1 {
		s.apply(func(request native.JobRequestHandle, e *native.ErrorHandle) int32 {
			return native.Quire_job_request_set_logit_biases(request, tokens, first, e)
		})
		return
	}
	for token, bias := range r.LogitBias {
		s.apply(func(request native.JobRequestHandle, e *native.ErrorHandle) int32 {
			return native.Quire_job_request_add_logit_bias(request, token, bias, e)
		})
	}
}

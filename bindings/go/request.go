package quire

import "quire.dev/quire/internal/native"

func (r *Request) fillRest(s *settings[native.JobRequestHandle]) {
	r.fillPrompt(s)
	if r.Queue != nil {
		share(s, native.Quire_job_request_set_queue, r.Queue.handle)
	}
}

// fillPrompt sets the prompt. A prompt given in two ways is refused, since one of them would be ignored.
func (r *Request) fillPrompt(s *settings[native.JobRequestHandle]) {
	switch {
	case len(r.Parts) > 0 && (r.Prompt != "" || r.Tokens != nil):
		s.fail("Parts", "a request with Parts has neither Prompt nor Tokens; add them as a PromptPart")
	case r.Tokens != nil && r.Prompt != "":
		s.fail("Tokens", "a request with Tokens has no Prompt; set one of them")
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

package quire

import (
	"time"

	"quire.dev/quire/internal/native"
)

// JobKind says what a job does.
type JobKind int32

// The kinds of the C interface (quire/request.h).
const (
	KindGenerate = JobKind(native.QUIRE_JOB_KIND_GENERATE)
	KindScore    = JobKind(native.QUIRE_JOB_KIND_SCORE) // how likely the prompt is: Job.Scores
	KindWarm     = JobKind(native.QUIRE_JOB_KIND_WARM)  // computes the prompt, so that later jobs find it
	KindEmbed    = JobKind(native.QUIRE_JOB_KIND_EMBED) // one vector of the prompt: Job.Embedding
)

// Pooling says how an embedding is made of the states of a prompt.
type Pooling int32

// The poolings of the C interface (quire/request.h).
const (
	PoolingMean = Pooling(native.QUIRE_POOLING_MEAN)
	PoolingLast = Pooling(native.QUIRE_POOLING_LAST)
)

// EventPolicy says what happens to the events of a job when nobody takes them.
type EventPolicy int32

// The policies of the C interface (quire/request.h).
const (
	EventsCoalesce = EventPolicy(native.QUIRE_EVENTS_COALESCE) // text grows together into one event
	EventsPause    = EventPolicy(native.QUIRE_EVENTS_PAUSE)    // the job pauses until events are taken
	EventsEnd      = EventPolicy(native.QUIRE_EVENTS_END)      // the job ends with Capacity
)

// Request says what a job does. The zero value of a field takes the default.
type Request struct {
	Kind         JobKind
	Prompt       string
	Tokens       []int32 // the prompt as ids; where set, Prompt is not read
	NoSpecial    bool    // adds none of the tokens that the model's tokenizer puts around Prompt
	ParseSpecial bool    // reads the text of special tokens in Prompt as those tokens

	MaxNewTokens int // 0 is 256
	MinNewTokens int // before which no stop token is drawn
	StopTokens   []int32
	StopTexts    []string
	IgnoreEOS    bool

	Temperature       *float64 // nil samples from the model's own distribution; 0 takes the likeliest token
	TopK              int
	TopP              float64
	MinP              float64
	Seed              uint64
	RepetitionPenalty float64 // 0 is 1, off
	FrequencyPenalty  float64
	PresencePenalty   float64
	PenaltyRange      int // of the three: the last tokens; 0 is all
	PenaltyDecay      int // over how many older tokens they fade to nothing
	LogitBias         map[int32]float64
	BannedTokens      []int32

	EmitSpecial     bool // the text of special tokens is part of the text
	LogProbs        bool
	TopLogProbs     int // the likeliest tokens that events carry beside each token
	RawLogits       bool
	Pooling         Pooling
	Unnormalized    bool // leaves an embedding at the length that it has
	UserData        uint64
	Queue           *Queue // takes the events of the job; nil: Job.Next does
	EventPolicy     EventPolicy
	MaxUnreadEvents int // before the policy acts; 0 is 64
	ProgressEvents  bool

	Namespace          string        // such as a tenant: prompts are shared, and quotas count, within it
	Priority           int           // larger goes first
	QueueDeadline      time.Duration // after submit, by which work must have begun; 0 is none, here and below
	FirstTokenDeadline time.Duration
	Deadline           time.Duration
	ReserveWhole       bool // room for all of the job is taken at once, so that it never gives it to others
	NoReuse            bool // computes all of the prompt
	NoPublish          bool // later jobs do not start from what this one computed
}

// native makes the counterpart of the request; the caller closes it.
func (r *Request) native() (*handle[native.JobRequestHandle], error) {
	return filled(native.Quire_job_request_create, native.Quire_job_request_free,
		func(s *settings[native.JobRequestHandle]) {
			r.fillPrompt(s)
			r.fillLength(s)
			r.fillSampling(s)
			r.fillResults(s)
			r.fillScheduling(s)
		})
}

func (r *Request) fillPrompt(s *settings[native.JobRequestHandle]) {
	s.int(native.Quire_job_request_set_kind, int(r.Kind))
	if r.Tokens == nil && r.Prompt != "" {
		s.apply(func(request native.JobRequestHandle, e *native.ErrorHandle) int32 {
			return native.Quire_job_request_set_prompt_text(request, r.Prompt, e)
		})
	}
	s.tokens(native.Quire_job_request_set_prompt_tokens, r.Tokens)
	s.flag(native.Quire_job_request_set_add_special, r.NoSpecial, 0)
	s.flag(native.Quire_job_request_set_parse_special, r.ParseSpecial, 1)
}

func (r *Request) fillLength(s *settings[native.JobRequestHandle]) {
	s.int(native.Quire_job_request_set_max_new_tokens, r.MaxNewTokens)
	s.int(native.Quire_job_request_set_min_new_tokens, r.MinNewTokens)
	s.tokens(native.Quire_job_request_set_stop_tokens, r.StopTokens)
	for _, text := range r.StopTexts {
		s.apply(func(request native.JobRequestHandle, e *native.ErrorHandle) int32 {
			return native.Quire_job_request_add_stop_text(request, text, e)
		})
	}
	s.flag(native.Quire_job_request_set_ignore_eos, r.IgnoreEOS, 1)
}

func (r *Request) fillSampling(s *settings[native.JobRequestHandle]) {
	if r.Seed != 0 {
		s.apply(func(request native.JobRequestHandle, e *native.ErrorHandle) int32 {
			return native.Quire_job_request_set_seed(request, r.Seed, e)
		})
	}
	s.float(native.Quire_job_request_set_repetition_penalty, r.RepetitionPenalty)
	s.float(native.Quire_job_request_set_frequency_penalty, r.FrequencyPenalty)
	s.float(native.Quire_job_request_set_presence_penalty, r.PresencePenalty)
	s.int(native.Quire_job_request_set_penalty_range, r.PenaltyRange)
	s.int(native.Quire_job_request_set_penalty_decay, r.PenaltyDecay)
	for token, bias := range r.LogitBias {
		s.apply(func(request native.JobRequestHandle, e *native.ErrorHandle) int32 {
			return native.Quire_job_request_add_logit_bias(request, token, bias, e)
		})
	}
	s.tokens(native.Quire_job_request_set_banned_tokens, r.BannedTokens)
	if r.Temperature != nil {
		s.apply(func(request native.JobRequestHandle, e *native.ErrorHandle) int32 {
			return native.Quire_job_request_set_temperature(request, *r.Temperature, e)
		})
	}
	s.int(native.Quire_job_request_set_top_k, r.TopK)
	s.float(native.Quire_job_request_set_top_p, r.TopP)
	s.float(native.Quire_job_request_set_min_p, r.MinP)
}

func (r *Request) fillResults(s *settings[native.JobRequestHandle]) {
	s.flag(native.Quire_job_request_set_emit_special, r.EmitSpecial, 1)
	s.flag(native.Quire_job_request_set_log_probs, r.LogProbs, 1)
	s.int(native.Quire_job_request_set_top_log_probs, r.TopLogProbs)
	s.flag(native.Quire_job_request_set_raw_logits, r.RawLogits, 1)
	s.int(native.Quire_job_request_set_pooling, int(r.Pooling))
	s.flag(native.Quire_job_request_set_normalize, r.Unnormalized, 0)
	s.apply(func(request native.JobRequestHandle, e *native.ErrorHandle) int32 {
		return native.Quire_job_request_set_user_data(request, r.UserData, e)
	})
	if r.Queue != nil {
		share(s, native.Quire_job_request_set_queue, r.Queue.handle)
	}
	s.int(native.Quire_job_request_set_event_policy, int(r.EventPolicy))
	s.int(native.Quire_job_request_set_max_unread_events, r.MaxUnreadEvents)
	s.flag(native.Quire_job_request_set_progress_events, r.ProgressEvents, 1)
}

func (r *Request) fillScheduling(s *settings[native.JobRequestHandle]) {
	s.text(native.Quire_job_request_set_namespace, r.Namespace)
	s.int(native.Quire_job_request_set_priority, r.Priority)
	s.int64(native.Quire_job_request_set_queue_deadline_ns, int64(r.QueueDeadline))
	s.int64(native.Quire_job_request_set_first_token_deadline_ns, int64(r.FirstTokenDeadline))
	s.int64(native.Quire_job_request_set_deadline_ns, int64(r.Deadline))
	s.flag(native.Quire_job_request_set_reserve_whole, r.ReserveWhole, 1)
	s.flag(native.Quire_job_request_set_reuse_prefix, r.NoReuse, 0)
	s.flag(native.Quire_job_request_set_publish_pages, r.NoPublish, 0)
}

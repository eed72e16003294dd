package quire

import (
	"time"

	"quire.dev/quire/internal/native"
)

// JobState says where a job stands.
type JobState int32

// The states of the C interface (quire/job.h).
const (
	StateQueued     = JobState(native.QUIRE_JOB_STATE_QUEUED)
	StatePrompt     = JobState(native.QUIRE_JOB_STATE_PROMPT)
	StateGenerating = JobState(native.QUIRE_JOB_STATE_GENERATING)
	StatePaused     = JobState(native.QUIRE_JOB_STATE_PAUSED)
	StateFinished   = JobState(native.QUIRE_JOB_STATE_FINISHED)
)

// JobInfo is where a job stands, what it took so far, and how it ended.
type JobInfo struct {
	State        JobState
	Finish       FinishReason
	StopToken    int32  // the one that ended the job; -1 where none did
	StopText     string // the one that ended the job
	ErrorCode    Code   // of what ended the job; 0 where nothing did
	PromptTokens int64
	CachedTokens int64 // of those, found in the cache
	NewTokens    int64 // generated so far, a stop token included
	Preemptions  int64 // how often it had to give its room to others
	TimeQueued   time.Duration
	TimePrompt   time.Duration // from the first work on the prompt to the first token
	TimeGenerate time.Duration // from the first token to the end
}

// Info tells what is known of the job now.
func (j *Job) Info() (JobInfo, error) {
	var info JobInfo
	err := read(j.handle, func(f *figures[native.JobHandle]) {
		info = JobInfo{
			State:        JobState(get(f, native.Quire_job_state)),
			Finish:       FinishReason(get(f, native.Quire_job_finish_reason)),
			StopToken:    get(f, native.Quire_job_stop_token),
			StopText:     getText(f, native.Quire_job_stop_text),
			ErrorCode:    Code(get(f, native.Quire_job_error_code)),
			PromptTokens: get(f, native.Quire_job_prompt_tokens),
			CachedTokens: get(f, native.Quire_job_cached_tokens),
			NewTokens:    get(f, native.Quire_job_new_tokens),
			Preemptions:  get(f, native.Quire_job_preemptions),
			TimeQueued:   time.Duration(get(f, native.Quire_job_time_queued_ns)),
			TimePrompt:   time.Duration(get(f, native.Quire_job_time_prompt_ns)),
			TimeGenerate: time.Duration(get(f, native.Quire_job_time_generate_ns)),
		}
	})
	return info, err
}

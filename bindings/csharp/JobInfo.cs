using System;
using Quire.Native;

namespace Quire
{
    /// <summary>Where a job stands; the numbers of the C interface (quire/job.h). A later library may have
    /// more.</summary>
    public enum JobState
    {
        Queued = QuireNative.QUIRE_JOB_STATE_QUEUED,
        Prompt = QuireNative.QUIRE_JOB_STATE_PROMPT,
        Generating = QuireNative.QUIRE_JOB_STATE_GENERATING,
        Paused = QuireNative.QUIRE_JOB_STATE_PAUSED,
        Finished = QuireNative.QUIRE_JOB_STATE_FINISHED,
    }

    /// <summary>Where a job stands, what it took so far, and how it ended.</summary>
    public sealed unsafe class JobInfo
    {
        public JobState State { get; private set; }
        public FinishReason Finish { get; private set; }

        /// <summary>The one that ended the job; -1 where none did.</summary>
        public int StopToken { get; private set; }

        /// <summary>The one that ended the job; else empty.</summary>
        public string StopText { get; private set; }

        /// <summary>Of what ended the job; Ok where nothing did.</summary>
        public ErrorCode ErrorCode { get; private set; }

        public long PromptTokens { get; private set; }

        /// <summary>Those of the prompt that were found in the cache.</summary>
        public long CachedTokens { get; private set; }

        /// <summary>Generated so far, a stop token included.</summary>
        public long NewTokens { get; private set; }

        /// <summary>How often it had to give its room to others.</summary>
        public long Preemptions { get; private set; }

        public TimeSpan TimeQueued { get; private set; }

        /// <summary>From the first work on the prompt to the first token, or until now.</summary>
        public TimeSpan TimePrompt { get; private set; }

        /// <summary>From the first token to the end, or until now.</summary>
        public TimeSpan TimeGenerate { get; private set; }

        internal static JobInfo Of(JobHandle job)
        {
            return new JobInfo
            {
                State = (JobState)Call.Get((out IntPtr e) => QuireNative.quire_job_state(job, out e)),
                Finish = (FinishReason)Call.Get((out IntPtr e) => QuireNative.quire_job_finish_reason(job, out e)),
                StopToken = Call.Get((out IntPtr e) => QuireNative.quire_job_stop_token(job, out e)),
                StopText = Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>
                    QuireNative.quire_job_stop_text(job, (byte*)text, size, out e)),
                ErrorCode = (ErrorCode)Call.Get((out IntPtr e) => QuireNative.quire_job_error_code(job, out e)),
                PromptTokens = Call.Get((out IntPtr e) => QuireNative.quire_job_prompt_tokens(job, out e)),
                CachedTokens = Call.Get((out IntPtr e) => QuireNative.quire_job_cached_tokens(job, out e)),
                NewTokens = Call.Get((out IntPtr e) => QuireNative.quire_job_new_tokens(job, out e)),
                Preemptions = Call.Get((out IntPtr e) => QuireNative.quire_job_preemptions(job, out e)),
                TimeQueued = Time((out IntPtr e) => QuireNative.quire_job_time_queued_ns(job, out e)),
                TimePrompt = Time((out IntPtr e) => QuireNative.quire_job_time_prompt_ns(job, out e)),
                TimeGenerate = Time((out IntPtr e) => QuireNative.quire_job_time_generate_ns(job, out e)),
            };
        }

        private static TimeSpan Time(Caller<long> nanoseconds)
        {
            return Call.FromNanoseconds(Call.Get(nanoseconds));
        }
    }
}

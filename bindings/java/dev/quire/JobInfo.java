package dev.quire;

import java.time.Duration;

/**
 * Where a job stands, what it took so far, and how it ended.
 *
 * @param state one of the QUIRE_JOB_STATE_* of {@link QuireNativeConstants}; a later library may have more
 * @param finishReason one of the QUIRE_FINISH_*
 * @param stopToken the one that ended the job; -1 where none did
 * @param stopText the one that ended the job; else empty
 * @param errorCode one of the QUIRE_ERROR_*
 * @param cachedTokens those of the prompt that were found in the cache
 * @param newTokens generated so far, a stop token included
 * @param preemptions how often it had to give its room to others
 * @param timePrompt from the first work on the prompt to the first token, or until now
 * @param timeGenerate from the first token to the end, or until now
 */
public record JobInfo(int state, int finishReason, int stopToken, String stopText, int errorCode, long promptTokens,
    long cachedTokens, long newTokens, long preemptions, Duration timeQueued, Duration timePrompt,
    Duration timeGenerate) {
  static JobInfo of(long job) {
    return new JobInfo(QuireNative.quire_job_state(job), QuireNative.quire_job_finish_reason(job),
        QuireNative.quire_job_stop_token(job), Results.text(out -> QuireNative.quire_job_stop_text(job, out)),
        QuireNative.quire_job_error_code(job), QuireNative.quire_job_prompt_tokens(job),
        QuireNative.quire_job_cached_tokens(job), QuireNative.quire_job_new_tokens(job),
        QuireNative.quire_job_preemptions(job), Duration.ofNanos(QuireNative.quire_job_time_queued_ns(job)),
        Duration.ofNanos(QuireNative.quire_job_time_prompt_ns(job)),
        Duration.ofNanos(QuireNative.quire_job_time_generate_ns(job)));
  }
}

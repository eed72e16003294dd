package dev.quire;

/**
 * One piece of a job's result.
 *
 * @param type one of the QUIRE_EVENT_* of {@link QuireNativeConstants}; a later library may have more
 * @param text whole characters, never a piece of a stop text
 * @param tokens the ids that came with the text
 * @param logProbs of each token; only where asked for, as the next two
 * @param topTokens the {@link Request#topLogProbs} likeliest at the place of each token, one row after another
 * @param topLogProbs those that belong to topTokens
 * @param progressDone of QUIRE_EVENT_PROGRESS how many tokens of the prompt are done
 * @param progressTotal of QUIRE_EVENT_PROGRESS how many tokens the prompt has
 * @param finishReason of the last event why the job ended, one of the QUIRE_FINISH_* of {@link
 *     QuireNativeConstants}; else QUIRE_FINISH_NONE
 * @param error of QUIRE_EVENT_ERROR why the job failed; else null
 * @param jobId {@link Job#id} of its job
 * @param userData {@link Request#userData} of its job
 */
public record Event(int type, String text, int[] tokens, float[] logProbs, int[] topTokens, float[] topLogProbs,
    long progressDone, long progressTotal, int finishReason, QuireException error, long jobId, long userData) {
  /** Whether no event of the job follows this one. */
  public boolean isLast() {
    return type == QuireNativeConstants.QUIRE_EVENT_FINISHED || type == QuireNativeConstants.QUIRE_EVENT_ERROR;
  }

  /** Copies a native event and frees it. */
  static Event take(long event) {
    try {
      int type = QuireNative.quire_event_type(event);
      return new Event(type, Utf8.string(QuireNative.quire_event_text(event)),
          Results.ints(out -> QuireNative.quire_event_tokens(event, out)),
          Results.floats(out -> QuireNative.quire_event_log_probs(event, out)),
          Results.ints(out -> QuireNative.quire_event_top_tokens(event, out)),
          Results.floats(out -> QuireNative.quire_event_top_log_probs(event, out)),
          QuireNative.quire_event_progress_done(event), QuireNative.quire_event_progress_total(event),
          QuireNative.quire_event_finish_reason(event),
          type == QuireNativeConstants.QUIRE_EVENT_ERROR ? failure(event) : null,
          QuireNative.quire_event_job_id(event), QuireNative.quire_event_user_data(event));
    } finally {
      QuireNative.quire_event_free(event);
    }
  }

  private static QuireException failure(long event) {
    return QuireException.of(
        QuireNative.quire_event_error_code(event), QuireNative.quire_event_error_message(event));
  }
}

package dev.quire;

/**
 * One piece of a job's result.
 *
 * @param text whole characters, never a piece of a stop text
 * @param tokens the ids that came with it
 * @param finishReason of the last event why the job ended, one of the QUIRE_FINISH_* of {@link
 *     QuireNativeConstants}; else QUIRE_FINISH_NONE
 */
public record Event(String text, int[] tokens, int finishReason) {
  /** Whether no event follows this one. */
  public boolean isLast() {
    return finishReason != QuireNativeConstants.QUIRE_FINISH_NONE;
  }
}

package dev.quire;

/** Receives the progress of a load. */
@FunctionalInterface
public interface Progress {
  /**
   * Called on the thread that loads, in bytes of the files; in the last call doneBytes == totalBytes. Inside
   * it, calls that wait, load, create or close a runtime, model or cache fail with ErrorCode.REENTRANT.
   * {@link Cancel#trigger} ends the load. If this throws, it is not called again, and the load throws the
   * same once it has ended.
   */
  void tell(long doneBytes, long totalBytes);
}

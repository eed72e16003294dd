package dev.quire;

/** Is told how far a load is. */
@FunctionalInterface
public interface Progress {
  /**
   * Called by the thread that loads, in bytes of the files, the last time with doneBytes == totalBytes. Calls that wait,
   * load, create or close a runtime, model or cache fail with QUIRE_ERROR_REENTRANT here; {@link Cancel#trigger} ends
   * the load. Where this throws it is called no more, and the load throws the same once it is over.
   */
  void tell(long doneBytes, long totalBytes);
}

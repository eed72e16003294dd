package dev.quire;

import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.spi.AbstractInterruptibleChannel;

/**
 * A wait in the library that an interrupt ends. It uses that the JVM closes a channel whose thread is
 * interrupted.
 */
final class NativeWait extends AbstractInterruptibleChannel {
  /** Waits in the library for the given nanoseconds, or until the cancel is triggered. */
  interface Call {
    long ask(long nanoseconds, long cancel);
  }

  private final Cancel cancel = new Cancel();

  private NativeWait() {}

  /**
   * Polls first, then waits. Returns the result of the call; throws a QuireException if the thread is
   * interrupted.
   */
  static long until(long nanoseconds, Call call) {
    requireNoInterrupt();
    long answer = call.ask(0, 0);
    if (answer != QuireNativeConstants.QUIRE_WAIT_TIMEOUT || nanoseconds == 0) {
      return answer;
    }
    NativeWait wait = new NativeWait();
    try {
      return wait.interruptibly(nanoseconds, call);
    } finally {
      wait.cancel.close();
    }
  }

  private long interruptibly(long nanoseconds, Call call) {
    long[] answer = new long[1];
    try {
      begin();
      try {
        cancel.with(value -> answer[0] = call.ask(nanoseconds, value));
      } finally {
        end(answer[0] != QuireNativeConstants.QUIRE_WAIT_CANCELLED);
      }
    } catch (ClosedByInterruptException interrupted) {
      if (answer[0] <= 0) {
        requireNoInterrupt();
      }
    } catch (java.nio.channels.AsynchronousCloseException closed) {
      throw new AssertionError(closed); // no other thread has the channel
    }
    return answer[0];
  }

  static void requireNoInterrupt() {
    if (Thread.currentThread().isInterrupted()) {
      throw QuireException.of(ErrorCode.CANCELLED, "the wait was interrupted");
    }
  }

  @Override
  protected void implCloseChannel() {
    cancel.trigger();
  }
}

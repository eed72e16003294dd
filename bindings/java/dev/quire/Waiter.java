package dev.quire;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Lets any number of threads wait for events of one job; waiting virtual threads occupy no thread of the
 * system. Wakes are counted: a thread waits for a count other than the one it read before it last polled the
 * job.
 */
final class Waiter {
  private final Dispatcher dispatcher;
  private final long id;
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition changed = lock.newCondition();
  private List<Runnable> listeners = new ArrayList<>();
  private long news;

  Waiter(Dispatcher dispatcher, long id) {
    this.dispatcher = dispatcher;
    this.id = id;
  }

  long news() {
    lock.lock();
    try {
      return news;
    } finally {
      lock.unlock();
    }
  }

  /** Waits for another count than `seen`, at most for the given nanoseconds. */
  void await(long seen, long nanoseconds) {
    long left = nanoseconds;
    lock.lock();
    try {
      while (news == seen && left > 0) {
        left = changed.awaitNanos(left);
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt(); // the caller checks this
    } finally {
      lock.unlock();
    }
  }

  /** Runs the listener once, on the common pool, when the count differs from `seen`. */
  void onNews(long seen, Runnable listener) {
    lock.lock();
    try {
      if (news == seen) {
        listeners.add(listener);
        return;
      }
    } finally {
      lock.unlock();
    }
    ForkJoinPool.commonPool().execute(listener);
  }

  void wake() {
    List<Runnable> told;
    lock.lock();
    try {
      news++;
      changed.signalAll();
      told = listeners;
      listeners = new ArrayList<>();
    } finally {
      lock.unlock();
    }
    told.forEach(ForkJoinPool.commonPool()::execute);
  }

  /** Removes the waiter from the dispatcher and wakes all threads. */
  void end() {
    dispatcher.remove(id);
    wake();
  }
}

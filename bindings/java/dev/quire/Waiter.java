package dev.quire;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Lets any number of threads wait for news of one job, virtual ones without a thread of the system. News is counted:
 * whoever waits names the count that was there when the job was last asked.
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

  /** Waits for more news than that, so many nanoseconds at most. */
  void await(long seen, long nanoseconds) {
    long left = nanoseconds;
    lock.lock();
    try {
      while (news == seen && left > 0) {
        left = changed.awaitNanos(left);
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt(); // whoever waits looks at that
    } finally {
      lock.unlock();
    }
  }

  /** Runs once, on the common pool, when there is more news than that. */
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

  /** The last news. */
  void end() {
    dispatcher.remove(id);
    wake();
  }
}

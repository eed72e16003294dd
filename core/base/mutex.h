// A mutex for clang's thread-safety analysis; guarded members are annotated with QUIRE_GUARDED_BY. To wait,
// pass MutexLock::native() to Clock::wait_until.
#pragma once

#include <mutex>

#if defined(__clang__)
#define QUIRE_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define QUIRE_THREAD_ANNOTATION(x)
#endif

#define QUIRE_CAPABILITY(x) QUIRE_THREAD_ANNOTATION(capability(x))
#define QUIRE_SCOPED_CAPABILITY QUIRE_THREAD_ANNOTATION(scoped_lockable)
#define QUIRE_GUARDED_BY(x) QUIRE_THREAD_ANNOTATION(guarded_by(x))
#define QUIRE_REQUIRES(...) QUIRE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define QUIRE_ACQUIRE(...) QUIRE_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define QUIRE_RELEASE(...) QUIRE_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define QUIRE_EXCLUDES(...) QUIRE_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define QUIRE_NO_THREAD_ANALYSIS QUIRE_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace quire {

class QUIRE_CAPABILITY("mutex") Mutex {
 public:
  void lock() QUIRE_ACQUIRE() { mutex_.lock(); }
  void unlock() QUIRE_RELEASE() { mutex_.unlock(); }
  std::mutex& native() { return mutex_; }

 private:
  std::mutex mutex_;
};

class QUIRE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) QUIRE_ACQUIRE(mutex) : lock_(mutex.native()) {}
  ~MutexLock() QUIRE_RELEASE() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // Returns the lock for Clock::wait_until and condition variables.
  std::unique_lock<std::mutex>& native() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace quire

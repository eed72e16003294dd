// std::condition_variable::wait is a new symbol in the standard library of GCC 12 (GLIBCXX_3.4.30). Where
// libraries are linked that are shipped, the linker sends its callers here (quire_avoid_new_symbols), so that
// they run with the library of GCC 11: a wait that ends at no time is the same wait, by a function that is
// compiled into the caller.
#include <condition_variable>

#include "core/base/clock.h"

// NOLINTNEXTLINE(bugprone-reserved-identifier): the linker's name for what it wraps
extern "C" void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* condition, std::unique_lock<std::mutex>* lock) {
  condition->wait_until(*lock, quire::TimePoint::max());
}

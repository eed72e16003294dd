// std::condition_variable::wait is a new symbol in the standard library of GCC 12 (GLIBCXX_3.4.30). When a
// shipped library is linked, the linker redirects its calls to this function (quire_avoid_new_symbols), so
// that the library also runs with the standard library of GCC 11. wait_until without an end is the same wait,
// and is compiled into the caller.
#include <condition_variable>

#include "core/base/clock.h"

// NOLINTNEXTLINE(bugprone-reserved-identifier): the name that the linker's --wrap option requires
extern "C" void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* condition, std::unique_lock<std::mutex>* lock) {
  condition->wait_until(*lock, quire::TimePoint::max());
}

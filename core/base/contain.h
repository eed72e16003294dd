// Turns any exception into an error code and a message; shared by all catch sites of the engine.
#pragma once

#include <exception>
#include <new>
#include <string_view>

#include "core/base/error.h"

namespace quire {

// Runs `action`. If it throws, calls report(code, message), which may throw itself. `no_memory` is the
// message for std::bad_alloc. Returns true if nothing was thrown.
template <typename Action, typename Report>
bool contain(std::string_view no_memory, Action&& action, Report&& report) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    report(error.code(), std::string_view(error.what()));
  } catch (const std::bad_alloc&) {
    report(ErrorCode::out_of_memory, no_memory);
  } catch (const std::exception& error) {
    report(ErrorCode::internal, std::string_view(error.what()));
  } catch (...) {
    report(ErrorCode::internal, std::string_view("an exception of an unknown type was thrown"));
  }
  return false;
}

}  // namespace quire

// Turns any exception into an error code and a message; shared by all catch sites of the engine.
#pragma once

#include <exception>
#include <new>
#include <string_view>
#include <type_traits>

#include "core/base/error.h"

namespace quire {

// Runs `action`. If it throws, calls report(code, message) or, if `report` takes it too, report(code,
// message, parameter), which may throw itself. `parameter` is the parameter at fault, empty for none.
// `no_memory` is the message for std::bad_alloc. Returns true if nothing was thrown.
template <typename Action, typename Report>
bool contain(std::string_view no_memory, Action&& action, Report&& report) {
  const auto pass_on = [&report](ErrorCode code, std::string_view message, std::string_view parameter = {}) {
    if constexpr (std::is_invocable_v<Report&, ErrorCode, std::string_view, std::string_view>)
      report(code, message, parameter);
    else
      report(code, message);
  };
  try {
    action();
    return true;
  } catch (const Error& error) {
    pass_on(error.code(), error.what(), error.parameter());
  } catch (const std::bad_alloc&) {
    pass_on(ErrorCode::out_of_memory, no_memory);
  } catch (const std::exception& error) {
    pass_on(ErrorCode::internal, error.what());
  } catch (...) {
    pass_on(ErrorCode::internal, "an exception of an unknown type was thrown");
  }
  return false;
}

}  // namespace quire

#include "capi/src/handle_census.h"

#include <fmt/core.h>

namespace quire::capi {

std::string HandleCensus::describe() const {
  std::string line;
  for (size_t i = 0; i < alive_.size(); ++i) {
    const int64_t count = alive_[i];
    if (count == 0) continue;
    line +=
        fmt::format("{}{} {}", line.empty() ? "" : ", ", count, handle_type_name(static_cast<HandleType>(i)));
  }
  return line;
}

}  // namespace quire::capi

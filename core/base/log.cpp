#include "core/base/log.h"

namespace quire {

void Log::write(LogLevel level, std::string_view line) const noexcept {
  if (!enabled(level)) return;
  try {
    sink_(level, line);
  } catch (...) {  // the sink belongs to the host; ignore its failure
  }
}

}  // namespace quire

#include "capi/src/arguments.h"

#include <cmath>

namespace quire::capi {

std::string_view c_text_argument(const char* text, size_t text_len, std::string_view what) {
  const std::string_view view = text_argument(text, text_len);
  if (const size_t zero = view.find('\0'); zero != std::string_view::npos) {
    throw Error(ErrorCode::invalid_argument, "{}: a zero byte at offset {}", what, zero);
  }
  return view;
}

float number_argument(double value, double min, double max, std::string_view name) {
  if (!std::isfinite(value) || value < min || value > max) {
    throw Error(ErrorCode::invalid_argument, "{}: {} is not in {} to {}", name, value, min, max);
  }
  return static_cast<float>(value);
}

}  // namespace quire::capi

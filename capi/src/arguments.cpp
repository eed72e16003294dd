#include "capi/src/arguments.h"

#include <cmath>

#include "core/base/utf8.h"

namespace quire::capi {

std::string_view c_text_argument(const char* text, size_t text_len, std::string_view what) {
  const std::string_view view = replace_parameter(what, [&] { return text_argument(text, text_len); });
  if (const size_t zero = view.find('\0'); zero != std::string_view::npos) {
    throw Error(ErrorCode::invalid_argument, "{}: a zero byte at offset {}; remove it", what, zero).at(what);
  }
  return view;
}

std::string short_text_argument(const char* text, size_t text_len, size_t max_bytes, std::string_view name) {
  const std::string_view view = replace_parameter(name, [&] { return text_argument(text, text_len); });
  if (view.size() > max_bytes) {
    throw Error(ErrorCode::invalid_argument, "{}: {} bytes, more than the limit of {}; shorten it", name,
                view.size(), max_bytes)
        .at(name);
  }
  with_parameter(name, [&] { require_utf8(view, name); });
  return std::string(view);
}

std::string namespace_argument(const char* text, size_t text_len) {
  constexpr size_t kMaxBytes = 256;
  return short_text_argument(text, text_len, kMaxBytes, "namespace");
}

double weight_argument(double weight) {
  constexpr double kMaxWeight = 1e6;
  if (weight > 0.0 && weight <= kMaxWeight) return weight;
  throw Error(ErrorCode::invalid_argument, "weight: {} is not above 0 and up to {}", weight, kMaxWeight)
      .at("weight");
}

float number_argument(double value, double min, double max, std::string_view name) {
  if (!std::isfinite(value) || value < min || value > max) {
    throw Error(ErrorCode::invalid_argument, "{}: {} is not in {} to {}", name, value, min, max).at(name);
  }
  return static_cast<float>(value);
}

}  // namespace quire::capi

// The Prometheus text exposition format, version 0.0.4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "core/metrics/histogram.h"

namespace quire {

// Builds one page; every sample carries the same label. Names are literals of ours, the label's value is
// escaped.
class PrometheusText {
 public:
  PrometheusText(std::string_view label_name, std::string_view label_value);

  void counter(std::string_view name, std::string_view help, uint64_t value);
  void gauge(std::string_view name, std::string_view help, double value);
  void histogram(std::string_view name, std::string_view help, const Histogram& values);

  std::string take() { return std::move(text_); }

 private:
  void head(std::string_view name, std::string_view help, std::string_view type);

  std::string label_;  // name="value"
  std::string text_;
};

}  // namespace quire

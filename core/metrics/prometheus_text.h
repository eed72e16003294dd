// Prometheus text exposition format, version 0.0.4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <gsl/gsl>

#include "core/metrics/histogram.h"

namespace quire {

// Returns name="value" with the value escaped, which must be UTF-8. The name is a literal of this library.
std::string prometheus_label(std::string_view name, std::string_view value);

// Builder of one page of metrics. A family is opened once and then filled. Its samples differ in their
// labels, which are results of prometheus_label() joined by commas. Names and help texts are literals of this
// library.
class PrometheusText {
 public:
  // Starts a family; the following samples belong to it. `type` is "counter", "gauge" or "histogram".
  void open(std::string_view name, std::string_view help, std::string_view type);

  void sample(std::string_view labels, uint64_t value);
  void sample(std::string_view labels, double value);
  void sample(std::string_view labels, const Histogram& values);
  // Adds one sample for each value, with its index as an additional label.
  void samples(std::string_view labels, std::string_view place, gsl::span<const uint64_t> values);

  std::string take() { return std::move(text_); }

 private:
  std::string name_;  // of the open family
  std::string text_;
};

}  // namespace quire

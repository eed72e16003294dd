// The Prometheus text exposition format, version 0.0.4.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <gsl/gsl>

#include "core/metrics/histogram.h"

namespace quire {

// name="value", the value escaped; it is to be UTF-8. The name is a literal of ours.
std::string prometheus_label(std::string_view name, std::string_view value);

// Builds one page. A family is opened once and then filled: its samples differ in their labels, which are
// prometheus_label()s with commas between them. Names and words are literals of ours.
class PrometheusText {
 public:
  // The samples that follow belong to this family. `type` is "counter", "gauge" or "histogram".
  void open(std::string_view name, std::string_view help, std::string_view type);

  void sample(std::string_view labels, uint64_t value);
  void sample(std::string_view labels, double value);
  void sample(std::string_view labels, const Histogram& values);
  // One sample for each value, with its place as one more label.
  void samples(std::string_view labels, std::string_view place, gsl::span<const uint64_t> values);

  std::string take() { return std::move(text_); }

 private:
  std::string name_;  // of the open family
  std::string text_;
};

}  // namespace quire

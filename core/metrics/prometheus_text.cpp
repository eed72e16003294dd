#include "core/metrics/prometheus_text.h"

#include <iterator>

#include <fmt/format.h>

namespace quire {

PrometheusText::PrometheusText(std::string_view label_name, std::string_view label_value) {
  label_ = fmt::format("{}=\"", label_name);
  for (const char byte : label_value) {
    if (byte == '\\' || byte == '"') label_.push_back('\\');
    if (byte == '\n') {
      label_ += "\\n";
    } else {
      label_.push_back(byte);
    }
  }
  label_.push_back('"');
}

void PrometheusText::head(std::string_view name, std::string_view help, std::string_view type) {
  fmt::format_to(std::back_inserter(text_), "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

void PrometheusText::counter(std::string_view name, std::string_view help, uint64_t value) {
  head(name, help, "counter");
  fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name, label_, value);
}

void PrometheusText::gauge(std::string_view name, std::string_view help, double value) {
  head(name, help, "gauge");
  fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name, label_, value);
}

void PrometheusText::histogram(std::string_view name, std::string_view help, const Histogram& values) {
  head(name, help, "histogram");
  uint64_t cumulative = 0;
  for (size_t i = 0; i + 1 < Histogram::kNumBuckets; ++i) {
    cumulative += values.count_in(i);
    fmt::format_to(std::back_inserter(text_), "{}_bucket{{{},le=\"{}\"}} {}\n", name, label_, values.bound(i),
                   cumulative);
  }
  fmt::format_to(std::back_inserter(text_),
                 "{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n", name,
                 label_, values.count(), values.sum());
}

}  // namespace quire

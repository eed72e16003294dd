#include "core/metrics/prometheus_text.h"

#include <iterator>

#include <fmt/format.h>

namespace quire {

std::string prometheus_label(std::string_view name, std::string_view value) {
  std::string label = fmt::format("{}=\"", name);
  for (const char byte : value) {
    if (byte == '\\' || byte == '"') label.push_back('\\');
    if (byte == '\n') {
      label += "\\n";
    } else {
      label.push_back(byte);
    }
  }
  label.push_back('"');
  return label;
}

void PrometheusText::open(std::string_view name, std::string_view help, std::string_view type) {
  name_ = name;
  fmt::format_to(std::back_inserter(text_), "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
}

void PrometheusText::sample(std::string_view labels, uint64_t value) {
  fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name_, labels, value);
}

void PrometheusText::sample(std::string_view labels, double value) {
  fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name_, labels, value);
}

void PrometheusText::samples(std::string_view labels, std::string_view place,
                             gsl::span<const uint64_t> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    fmt::format_to(std::back_inserter(text_), "{}{{{},{}=\"{}\"}} {}\n", name_, labels, place, i, values[i]);
  }
}

void PrometheusText::sample(std::string_view labels, const Histogram& values) {
  uint64_t cumulative = 0;
  for (size_t i = 0; i < values.bounds().size(); ++i) {
    cumulative += values.count_in(i);
    fmt::format_to(std::back_inserter(text_), "{}_bucket{{{},le=\"{}\"}} {}\n", name_, labels,
                   values.bounds()[i], cumulative);
  }
  fmt::format_to(std::back_inserter(text_),
                 "{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n", name_,
                 labels, values.count(), values.sum());
}

}  // namespace quire

#include "core/engine/metrics/residency_metrics.h"

#include <array>

#include <fmt/core.h>

#include "core/engine/deadline.h"
#include "core/engine/runtime.h"
#include "core/metrics/prometheus_text.h"

namespace quire {
namespace {

struct FigureField {
  const char* name;
  const char* help;
  const char* type;
  double (*read)(const ResidenceFigures&);
};

constexpr std::array<FigureField, 6> kFields = {{
    {"quire_model_state", "1: on its devices, 2: standing by, 3: on disk, 4: on the way.", "gauge",
     [](const ResidenceFigures& of) { return static_cast<double>(of.state); }},
    {"quire_model_waits_total", "How often jobs of a cache found the weights away.", "counter",
     [](const ResidenceFigures& of) { return static_cast<double>(of.waits); }},
    {"quire_model_wakes_total", "How often the weights came back.", "counter",
     [](const ResidenceFigures& of) { return static_cast<double>(of.wakes); }},
    {"quire_model_failed_wakes_total", "How often they could not.", "counter",
     [](const ResidenceFigures& of) { return static_cast<double>(of.failed_wakes); }},
    {"quire_model_evictions_total", "How often they left.", "counter",
     [](const ResidenceFigures& of) { return static_cast<double>(of.evictions); }},
    {"quire_model_wake_seconds_total", "What their ways back took together.", "counter",
     [](const ResidenceFigures& of) { return in_seconds(of.all_wakes); }},
}};

// Paths may be of any bytes.
std::string label(std::string_view name, const std::string& value) {
  return prometheus_label(name, printable(value, value.size() * 4));
}

}  // namespace

std::string format_residency_metrics(const Runtime& runtime) {
  PrometheusText text;
  const auto models = runtime.residences().list();
  for (const FigureField& field : kFields) {
    if (!models.empty()) text.open(field.name, field.help, field.type);
    for (const Residences::Listed& model : models)
      text.sample(fmt::format("{},number=\"{}\"", label("model", model.name), model.number),
                  field.read(model.figures));
  }
  const auto leases = runtime.leases_by_taker();
  if (!leases.empty()) text.open("quire_memory_bytes", "Bytes of a device that were given away.", "gauge");
  for (const auto& [of, bytes] : leases)
    text.sample(fmt::format("{},{}", label("device", of.first), label("taker", of.second)), bytes);
  return text.take();
}

}  // namespace quire

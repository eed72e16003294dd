#include "core/engine/metrics/residency_metrics.h"

#include <array>

#include <fmt/core.h>

#include "core/base/deadline.h"
#include "core/engine/residency/runtime.h"
#include "core/metrics/prometheus_text.h"

namespace quire {
namespace {

struct FigureField {
  const char* name;
  const char* help;
  const char* type;
  double (*read)(const ResidencyStats&);
};

constexpr std::array<FigureField, 6> kFields = {{
    {"quire_model_state", "1: on its devices, 2: standing by, 3: on disk, 4: moving.", "gauge",
     [](const ResidencyStats& of) { return static_cast<double>(of.state); }},
    {"quire_model_waits_total", "How often jobs had to wait for evicted weights.", "counter",
     [](const ResidencyStats& of) { return static_cast<double>(of.waits); }},
    {"quire_model_wakes_total", "How often evicted weights were loaded again.", "counter",
     [](const ResidencyStats& of) { return static_cast<double>(of.wakes); }},
    {"quire_model_failed_wakes_total", "How often loading them again failed.", "counter",
     [](const ResidencyStats& of) { return static_cast<double>(of.failed_wakes); }},
    {"quire_model_evictions_total", "How often weights were evicted.", "counter",
     [](const ResidencyStats& of) { return static_cast<double>(of.evictions); }},
    {"quire_model_wake_seconds_total", "Total time of loading evicted weights again.", "counter",
     [](const ResidencyStats& of) { return in_seconds(of.all_wakes); }},
}};

// Escapes a path, which may contain any bytes.
std::string label(std::string_view name, const std::string& value) {
  return prometheus_label(name, printable(value, value.size() * 4));
}

std::string labels_of(const ResidencyRegistry::Listed& model) {
  return fmt::format("{},number=\"{}\"", label("model", model.name), model.number);
}

void add_models(PrometheusText& text, const std::vector<ResidencyRegistry::Listed>& models) {
  if (models.empty()) return;
  for (const FigureField& field : kFields) {
    text.open(field.name, field.help, field.type);
    for (const ResidencyRegistry::Listed& model : models)
      text.sample(labels_of(model), field.read(model.figures));
  }
  text.open("quire_model_shard_bytes", "Bytes of a shard's weights while they are resident.", "gauge");
  for (const ResidencyRegistry::Listed& model : models)
    text.samples(labels_of(model), "shard", model.shard_bytes);
}

}  // namespace

std::string format_residency_metrics(const Runtime& runtime) {
  PrometheusText text;
  add_models(text, runtime.residency_registry().list());
  const auto leases = runtime.leases_by_taker();
  if (!leases.empty()) text.open("quire_memory_bytes", "Leased bytes of a device.", "gauge");
  for (const auto& [of, bytes] : leases)
    text.sample(fmt::format("{},{}", label("device", of.first), label("taker", of.second)), bytes);
  return text.take();
}

}  // namespace quire

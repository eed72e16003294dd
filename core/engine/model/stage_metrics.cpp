#include "core/engine/model/stage_metrics.h"

#include <array>

#include "core/base/deadline.h"
#include "core/metrics/prometheus_text.h"

namespace quire {
namespace {

struct StageField {
  const char* name;
  const char* help;
  const char* type;
  double (*read)(StageHost&);
};

constexpr std::array<StageField, 8> kFields = {{
    {"quire_stage_up", "1: connected, 0: not connected yet, or lost.", "gauge",
     [](StageHost& of) { return of.is_connected() ? 1.0 : 0.0; }},
    {"quire_stage_free_bytes", "Free bytes of the stage's device, by its last answer.", "gauge",
     [](StageHost& of) { return static_cast<double>(of.counters().free_bytes); }},
    {"quire_stage_losses_total", "Connections to the stage that were lost.", "counter",
     [](StageHost& of) { return static_cast<double>(of.counters().num_losses); }},
    {"quire_stage_passes_total", "Steps that passed through the layers of the stage.", "counter",
     [](StageHost& of) { return static_cast<double>(of.counters().num_passes); }},
    {"quire_stage_pass_seconds_total", "Total time of these steps, from request to answer.", "counter",
     [](StageHost& of) { return in_seconds(Duration(of.counters().pass_nanoseconds)); }},
    {"quire_stage_linked_passes_total", "Steps whose rows travelled from card to card.", "counter",
     [](StageHost& of) { return static_cast<double>(of.counters().num_linked_passes); }},
    {"quire_stage_sent_bytes_total", "Bytes sent to the stage.", "counter",
     [](StageHost& of) { return static_cast<double>(of.counters().sent_bytes); }},
    {"quire_stage_received_bytes_total", "Bytes received from the stage.", "counter",
     [](StageHost& of) { return static_cast<double>(of.counters().received_bytes); }},
}};

// Adds the text of each stage whose rows have a transport.
void add_transports(const std::vector<std::shared_ptr<StageHost>>& stages, PrometheusText& text) {
  if (stages.empty()) return;
  text.open("quire_stage_transport", "1: how activations of the latest cache travel.", "gauge");
  for (const auto& stage : stages) {
    const std::string transport = stage->counters().transport();
    if (transport.empty()) continue;
    text.sample(prometheus_label("stage", stage->name()) + "," + prometheus_label("transport", transport),
                1.0);
  }
}

}  // namespace

std::string format_stage_metrics(const std::vector<std::shared_ptr<StageHost>>& stages) {
  PrometheusText text;
  for (const StageField& field : kFields) {
    if (stages.empty()) break;
    text.open(field.name, field.help, field.type);
    for (const auto& stage : stages)
      text.sample(prometheus_label("stage", stage->name()), field.read(*stage));
  }
  add_transports(stages, text);
  return text.take();
}

}  // namespace quire

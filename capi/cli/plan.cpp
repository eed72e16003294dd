// quire plan: shows the memory of a model and its cache, by kind and device. Reads no weights.
#include <algorithm>

#include "capi/cli/commands.h"
#include "capi/cli/failure.h"
#include "capi/cli/terminal.h"

namespace quire::cli {
namespace {

struct PlanOptions {
  ModelChoice model;
  int64_t context = 8192;
  int32_t batch = 1;
  std::string kv_format = "f16";
  std::vector<double> read_rates;  // of each device, in GB per second; empty: not known
};

using DeviceBytes = int64_t (*)(quire_plan*, int32_t, quire_error**);
using Bytes = int64_t (*)(quire_plan*, quire_error**);
struct Kind {
  const char* field;
  Bytes all;
  DeviceBytes of_device;
};
constexpr Kind kBytes[] = {{"total_bytes", quire_plan_total_bytes, quire_plan_device_total_bytes},
                           {"embedding_bytes", quire_plan_embedding_bytes, quire_plan_device_embedding_bytes},
                           {"layer_bytes", quire_plan_layer_bytes, quire_plan_device_layer_bytes},
                           {"head_bytes", quire_plan_head_bytes, quire_plan_device_head_bytes},
                           {"drafter_bytes", quire_plan_drafter_bytes, quire_plan_device_drafter_bytes},
                           {"kv_bytes", quire_plan_kv_bytes, quire_plan_device_kv_bytes},
                           {"workspace_bytes", quire_plan_workspace_bytes, quire_plan_device_workspace_bytes},
                           {"staging_bytes", quire_plan_staging_bytes, quire_plan_device_staging_bytes}};

Json device_as_json(quire_plan* plan, int32_t device_idx) {
  Json json;
  json["name"] = text_of(quire_plan_device_name, plan, device_idx);
  json["num_layers"] = call(quire_plan_device_num_layers, plan, device_idx);
  json["num_host_experts"] = call(quire_plan_device_num_host_experts, plan, device_idx);
  for (const Kind& kind : kBytes) json[kind.field] = call(kind.of_device, plan, device_idx);
  json["step_bytes"] = call(quire_plan_device_step_bytes, plan, device_idx);
  json["usable_bytes"] = call(quire_plan_device_usable_bytes, plan, device_idx);
  return json;
}

Json group_as_json(quire_plan* plan, int32_t group_idx) {
  return {{"window", call(quire_plan_cache_group_window, plan, group_idx)},
          {"num_pages", call(quire_plan_cache_group_num_pages, plan, group_idx)},
          {"num_layers", call(quire_plan_cache_group_num_layers, plan, group_idx)},
          {"bytes", call(quire_plan_cache_group_bytes, plan, group_idx)}};
}

void add_plan_to(Json& json, quire_plan* plan) {
  for (const Kind& kind : kBytes) json[kind.field] = call(kind.all, plan);
  json["devices"] = Json::array();
  for (int32_t i = 0; i < call(quire_plan_num_devices, plan); ++i) {
    json["devices"].push_back(device_as_json(plan, i));
  }
  json["cache_groups"] = Json::array();
  auto state_bytes = json.at("kv_bytes").get<int64_t>();
  for (int32_t i = 0; i < call(quire_plan_num_cache_groups, plan); ++i) {
    json["cache_groups"].push_back(group_as_json(plan, i));
    state_bytes -= json["cache_groups"].back().at("bytes").get<int64_t>();
  }
  json["state_bytes"] = state_bytes;  // slots of recurrent states: kv_bytes without pages
  json["layers"] = Json::array();
  for (int32_t i = 0; i < call(quire_plan_num_layers, plan); ++i) {
    json["layers"].push_back({{"device", call(quire_plan_layer_device, plan, i)},
                              {"experts_device", call(quire_plan_layer_experts_device, plan, i)},
                              {"bytes", call(quire_plan_bytes_of_layer, plan, i)}});
  }
}

// Returns the tokens per second of one job if each device reads its weights at its rate, one after another.
double expected_tokens_per_second(const Json& devices, const std::vector<double>& read_rates) {
  if (read_rates.size() != devices.size()) {
    throw Failure(kExitUsage, "--read-rate: " + std::to_string(read_rates.size()) + " numbers for " +
                                  std::to_string(devices.size()) + " devices; give one for each device");
  }
  constexpr double kGiga = 1e9;
  double seconds = 0.0;
  for (size_t i = 0; i < read_rates.size(); ++i)
    seconds += static_cast<double>(devices[i].at("step_bytes").get<int64_t>()) / (read_rates[i] * kGiga);
  return 1.0 / seconds;
}

Plan make_plan(quire_runtime* runtime, const PlanOptions& options) {
  const std::string path = resolve_model_path(options.model);
  const ModelOptions model = choose_model(options.model, path);
  const CacheOptions cache = choose_cache(options.model);
  call(quire_cache_options_set_max_seq_len, cache.get(), options.context);
  call(quire_cache_options_set_max_tokens, cache.get(), options.context * options.batch);
  call(quire_cache_options_set_max_batch_size, cache.get(), options.batch);
  call(quire_cache_options_set_kv_format, cache.get(), kv_format_of(options.kv_format));
  return plan_model(runtime, model.get(), cache.get());
}

// Returns the bytes of each device for one number of shards, or why it does not work.
Json way_as_json(quire_runtime* runtime, PlanOptions options, int32_t num_shards) {
  options.model.num_shards = num_shards;
  Json json = {{"num_shards", num_shards}};
  try {
    const Plan plan = make_plan(runtime, options);
    for (int32_t i = 0; i < call(quire_plan_num_devices, plan.get()); ++i)
      json["device_bytes"].push_back(call(quire_plan_device_total_bytes, plan.get(), i));
  } catch (const std::exception& error) {
    json["error"] = error.what();
  }
  return json;
}

// Returns every way to divide a model over several devices: by layers, in shards, or both.
Json ways_of(quire_runtime* runtime, const PlanOptions& options) {
  Json ways = Json::array();
  const auto num_devices = std::count(options.model.device.begin(), options.model.device.end(), ',') + 1;
  for (int32_t shards = 1; shards <= num_devices && num_devices > 1; ++shards)
    if (num_devices % shards == 0) ways.push_back(way_as_json(runtime, options, shards));
  return ways;
}

Json plan_of(quire_runtime* runtime, const PlanOptions& options) {
  const Plan plan = make_plan(runtime, options);
  Json json;
  json["model"] = text_of(quire_plan_model_path, plan.get());
  json["context"] = options.context;
  json["batch"] = options.batch;
  json["kv_format"] = kv_format_name(call(quire_plan_kv_format, plan.get()));
  json["drafter"] = text_of(quire_plan_drafter, plan.get());
  json["num_shards"] = options.model.num_shards;
  add_plan_to(json, plan.get());
  if (!options.read_rates.empty())
    json["expected_tokens_per_second"] = expected_tokens_per_second(json.at("devices"), options.read_rates);
  json["ways"] = ways_of(runtime, options);
  return json;
}

constexpr std::pair<const char*, const char*> kKinds[] = {
    {"embedding", "embedding_bytes"}, {"layers", "layer_bytes"},        {"head", "head_bytes"},
    {"drafter", "drafter_bytes"},     {"kv and states", "kv_bytes"},    {"workspace", "workspace_bytes"},
    {"total", "total_bytes"},         {"read by a token", "step_bytes"}};

std::string bytes_text(const Json& json, const char* field) {
  return format_bytes(static_cast<double>(json.at(field).get<int64_t>()));
}

// Prints a row for each cache group.
void print_groups(const Json& plan) {
  Table table({"cache group", "layers", "pages", "bytes"});
  for (const Json& group : plan.at("cache_groups")) {
    const auto window = group.at("window").get<int64_t>();
    table.add({window == 0 ? "whole context" : "window " + std::to_string(window),
               std::to_string(group.at("num_layers").get<int64_t>()),
               std::to_string(group.at("num_pages").get<int64_t>()), bytes_text(group, "bytes")});
  }
  if (plan.at("state_bytes").get<int64_t>() > 0)
    table.add({"recurrent states", "", "", bytes_text(plan, "state_bytes")});
  print("\n" + table.text());
}

bool has_host_experts(const Json& plan) {
  const Json& devices = plan.at("devices");
  return std::any_of(devices.begin(), devices.end(),
                     [](const Json& device) { return device.at("num_host_experts").get<int64_t>() > 0; });
}

// Prints a row for each way to use several devices.
void print_ways(const Json& plan) {
  if (plan.at("ways").empty()) return;
  std::vector<std::string> header = {"way"};
  for (const Json& device : plan.at("devices")) header.push_back(device.at("name").get<std::string>());
  Table table(header);
  std::string refusals;
  for (const Json& way : plan.at("ways")) {
    const auto num_shards = way.at("num_shards").get<size_t>();
    std::vector<std::string> row = {num_shards == 1 ? "layers" : std::to_string(num_shards) + " shards"};
    if (num_shards > 1 && num_shards < plan.at("devices").size()) row.front() += " and layers";
    if (way.contains("error")) {
      refusals += "\n" + row.front() + ": " + way.at("error").get<std::string>();
      continue;
    }
    for (const Json& bytes : way.at("device_bytes"))
      row.push_back(format_bytes(static_cast<double>(bytes.get<int64_t>())));
    table.add(row);
  }
  print("\n" + table.text());
  if (!refusals.empty()) print_line(refusals.substr(1));
}

// Prints a row for each kind of memory, with a column for each device.
void print_plan(const Json& plan) {
  std::vector<std::string> header = {""};
  std::vector<std::string> num_layers = {"number of layers"};
  std::vector<std::string> experts = {"layers' experts alone"};
  std::vector<std::string> usable = {"free without reserve"};
  for (const Json& device : plan.at("devices")) {
    header.push_back(device.at("name").get<std::string>());
    num_layers.push_back(std::to_string(device.at("num_layers").get<int64_t>()));
    experts.push_back(std::to_string(device.at("num_host_experts").get<int64_t>()));
    usable.push_back(bytes_text(device, "usable_bytes"));
  }
  Table table(header);
  table.add(num_layers);
  if (has_host_experts(plan)) table.add(experts);
  for (const auto& [name, field] : kKinds) {
    std::vector<std::string> row = {name};
    for (const Json& device : plan.at("devices")) row.push_back(bytes_text(device, field));
    table.add(row);
  }
  table.add(usable);
  print(table.text());
  print_groups(plan);
  print_ways(plan);
  const auto num_shards = plan.at("num_shards").get<int64_t>();
  const std::string of_shards = num_shards > 1 ? " of " + std::to_string(num_shards) + " shards" : "";
  print_line("\n" + plan.at("model").get<std::string>() + ", keys and values as " +
             plan.at("kv_format").get<std::string>());
  if (const auto drafter = plan.at("drafter").get<std::string>(); !drafter.empty())
    print_line("drafts by " + drafter);
  print_line("total " + bytes_text(plan, "total_bytes") + of_shards + ", and " +
             bytes_text(plan, "staging_bytes") + " of host memory for copies");
  if (plan.contains("expected_tokens_per_second"))
    print_line("at most " + format_number(plan.at("expected_tokens_per_second").get<double>(), 1) +
               " tokens per second for one job, by the bytes that a token reads");
}

int plan(const PlanOptions& options, Interrupt& /*interrupt*/) {
  const Runtime runtime = open_runtime(options.model);
  const Json json = plan_of(runtime.get(), options);
  if (options.model.json) {
    print_json(json);
  } else {
    print_plan(json);
  }
  return kExitOk;
}

constexpr const char* kPlanNotes =
    R"(Reads headers, never weights. Queries the free memory of the devices but allocates none.

Examples:
  quire plan --model DIR --context 8192 --batch 16 --kv-format q8
  quire plan --model synthetic:llama-3.1-70b,bits=4.0 --device cuda:0,cuda:1
  quire plan --model synthetic:qwen3-30b-a3b,bits=4.0 --device cuda:0 --host-experts auto --read-rate 900,60
)";

}  // namespace

Command add_plan(CLI::App& root) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* app =
      root.add_subcommand("plan", "Show the memory that a model and its cache take on each device");
  app->footer(kPlanNotes);
  add_runtime_options(*app, options->model);
  app->add_option("--context", options->context, "Tokens of one job")
      ->type_name("N")
      ->check(in_range(1, kMaxTokens))
      ->capture_default_str();
  app->add_option("--batch", options->batch, "Jobs that run at the same time")
      ->type_name("B")
      ->check(in_range(1, 4096))
      ->capture_default_str();
  add_kv_format_option(*app, options->kv_format);
  app->add_option("--read-rate", options->read_rates,
                  "GB per second that each device reads, as in 900,60: adds the expected speed of one job")
      ->type_name("RATES")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  add_drafting_options(*app, options->model.drafting);
  return {app, [options](Interrupt& interrupt) { return plan(*options, interrupt); }};
}

}  // namespace quire::cli

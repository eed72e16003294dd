// Devices and splits as options, and memory plans: models over several devices as callers see them.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

using Json = nlohmann::json;

struct Choice {
  std::string path = QUIRE_EMBEDDED_MODEL;
  std::string device = {};
  std::string split = {};
  std::string reserve = {};
};

OwnedModelOptions options_for(const Choice& choice) {
  OwnedModelOptions options(quire_model_options_create(nullptr));
  const auto set = [&](auto* setter, const std::string& text) {
    if (text.empty()) return;
    EXPECT_EQ(setter(options.get(), text.data(), text.size(), nullptr), 1) << text;
  };
  set(quire_model_options_set_path, choice.path);
  set(quire_model_options_set_device, choice.device);
  set(quire_model_options_set_split, choice.split);
  set(quire_model_options_set_reserve, choice.reserve);
  return options;
}

OwnedCacheOptions small_cache() {
  OwnedCacheOptions options(quire_cache_options_create(nullptr));
  quire_cache_options_set_max_tokens(options.get(), 500, nullptr);
  quire_cache_options_set_max_chunk_tokens(options.get(), 32, nullptr);
  quire_cache_options_set_max_batch_size(options.get(), 4, nullptr);
  return options;
}

// Returns the plan of the model with a small cache. If byte limits decide the split, the load must get that
// cache, too.
Json plan_of(quire_runtime* runtime, const Choice& choice) {
  const OwnedModelOptions model = options_for(choice);
  const OwnedCacheOptions cache = small_cache();
  Report report;
  const OwnedPlan plan(quire_plan_create(runtime, model.get(), cache.get(), report.out()));
  EXPECT_TRUE(plan) << report.message();
  if (!plan) return {};
  quire_plan* const of = plan.get();
  Json json = {{"total_bytes", quire_plan_total_bytes(of, nullptr)},
               {"embedding_bytes", quire_plan_embedding_bytes(of, nullptr)},
               {"layer_bytes", quire_plan_layer_bytes(of, nullptr)},
               {"head_bytes", quire_plan_head_bytes(of, nullptr)},
               {"drafter_bytes", quire_plan_drafter_bytes(of, nullptr)},
               {"kv_bytes", quire_plan_kv_bytes(of, nullptr)},
               {"workspace_bytes", quire_plan_workspace_bytes(of, nullptr)},
               {"staging_bytes", quire_plan_staging_bytes(of, nullptr)},
               {"devices", Json::array()},
               {"cache_groups", Json::array()},
               {"layers", Json::array()}};
  for (int32_t i = 0; i < quire_plan_num_devices(of, nullptr); ++i) {
    std::string name(64, '\0');
    name.resize(static_cast<size_t>(quire_plan_device_name(of, i, name.data(), name.size(), nullptr)));
    json["devices"].push_back({{"name", name},
                               {"num_layers", quire_plan_device_num_layers(of, i, nullptr)},
                               {"total_bytes", quire_plan_device_total_bytes(of, i, nullptr)},
                               {"embedding_bytes", quire_plan_device_embedding_bytes(of, i, nullptr)},
                               {"layer_bytes", quire_plan_device_layer_bytes(of, i, nullptr)},
                               {"head_bytes", quire_plan_device_head_bytes(of, i, nullptr)},
                               {"drafter_bytes", quire_plan_device_drafter_bytes(of, i, nullptr)},
                               {"kv_bytes", quire_plan_device_kv_bytes(of, i, nullptr)},
                               {"workspace_bytes", quire_plan_device_workspace_bytes(of, i, nullptr)},
                               {"staging_bytes", quire_plan_device_staging_bytes(of, i, nullptr)},
                               {"usable_bytes", quire_plan_device_usable_bytes(of, i, nullptr)}});
  }
  for (int32_t i = 0; i < quire_plan_num_cache_groups(of, nullptr); ++i) {
    json["cache_groups"].push_back({{"window", quire_plan_cache_group_window(of, i, nullptr)},
                                    {"num_pages", quire_plan_cache_group_num_pages(of, i, nullptr)},
                                    {"num_layers", quire_plan_cache_group_num_layers(of, i, nullptr)},
                                    {"bytes", quire_plan_cache_group_bytes(of, i, nullptr)}});
  }
  for (int32_t i = 0; i < quire_plan_num_layers(of, nullptr); ++i) {
    json["layers"].push_back({{"device", quire_plan_layer_device(of, i, nullptr)},
                              {"bytes", quire_plan_bytes_of_layer(of, i, nullptr)}});
  }
  return json;
}

// Returns the greedy text of the model on these devices.
std::string story_on(quire_runtime* runtime, const Choice& choice) {
  const OwnedModelOptions options = options_for(choice);
  const OwnedCacheOptions planned = small_cache();
  EXPECT_EQ(quire_model_options_set_planned_cache(options.get(), planned.get(), nullptr), 1);
  Report report;
  const OwnedModel model(quire_model_load(runtime, options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()));
  EXPECT_TRUE(model) << report.message();
  if (!model) return {};
  const OwnedCache cache = make_cache(model.get());
  const OwnedRequest request = make_request("Once upon a time there was", 24);
  const OwnedJob job(quire_job_submit(cache.get(), request.get(), report.out()));
  EXPECT_TRUE(job) << report.message();
  return collect(job.get()).text;
}

int32_t code_of_load(quire_runtime* runtime, const Choice& choice, std::string* message) {
  const OwnedModelOptions options = options_for(choice);
  Report report;
  const OwnedModel model(quire_model_load(runtime, options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()));
  EXPECT_FALSE(model);
  *message = report.message();
  return report.code();
}

TEST(Split, OverDevicesGivesTheSameText) {
  const OwnedRuntime runtime = make_runtime();
  const std::string alone = story_on(runtime.get(), {});
  EXPECT_FALSE(alone.empty());
  EXPECT_EQ(story_on(runtime.get(), {.device = "cpu,cpu", .split = "3,5"}), alone);
  EXPECT_EQ(story_on(runtime.get(), {.device = "cpu,cpu,cpu", .split = "1,0,7"}), alone);
}

// The first cpu gets the layers that the other cannot hold.
TEST(Split, ByBytesAssignsLayersWithinThem) {
  const OwnedRuntime runtime = make_runtime();
  const int64_t whole = plan_of(runtime.get(), {}).at("total_bytes").get<int64_t>();
  const int64_t most = whole * 3 / 4 / 1024;
  const Choice roomy{.device = "cpu,cpu", .split = "1G,1G"};
  EXPECT_EQ(plan_of(runtime.get(), roomy).at("devices")[1].at("num_layers"), 8);
  const Choice tight{.device = "cpu,cpu", .split = "1G," + std::to_string(most) + "K"};
  const Json plan = plan_of(runtime.get(), tight);
  const Json& second = plan.at("devices")[1];
  EXPECT_GT(second.at("num_layers"), 0);
  EXPECT_LT(second.at("num_layers"), 8);
  EXPECT_EQ(second.at("usable_bytes"), most * 1024);
  EXPECT_LE(second.at("total_bytes"), most * 1024);
  EXPECT_EQ(story_on(runtime.get(), tight), story_on(runtime.get(), {}));
}

TEST(Split, WithTooFewBytesIsOutOfMemory) {
  const OwnedRuntime runtime = make_runtime();
  for (const char* device : {"cpu", "cpu,cpu"}) {
    std::string message;
    const Choice choice{.device = device, .split = device == std::string("cpu") ? "1M" : "1M,2M"};
    EXPECT_EQ(code_of_load(runtime.get(), choice, &message), QUIRE_ERROR_OUT_OF_MEMORY) << message;
    EXPECT_NE(message.find("at most 1048576 may be used"), std::string::npos) << message;
  }
  EXPECT_FALSE(story_on(runtime.get(), {.split = "1G"}).empty());
}

TEST(Split, IsRefusedByNameIfInvalid) {
  const OwnedRuntime runtime = make_runtime();
  const std::pair<Choice, std::string> refused[] = {
      {{.device = "cpu,cpu", .split = "3,6"}, "split: 9 layers are placed, but the model has 8"},
      {{.device = "cpu,cpu", .split = "8"}, "split: 1 numbers for 2 devices"},
      {{.device = "cpu,cpu", .split = "8G"}, "split: 1 numbers for 2 devices"},
      {{.device = "cpu,cpu"}, "device: cpu is named twice"},
      {{.device = "cpu,cpu", .split = "4,4", .reserve = "1,2,3"}, "reserve: 3 numbers for 2 devices"},
      {{.device = "cpu,"}, "device: a name is missing"},
  };
  for (const auto& [choice, words] : refused) {
    std::string message;
    EXPECT_EQ(code_of_load(runtime.get(), choice, &message), QUIRE_ERROR_INVALID_ARGUMENT) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
  std::string message;
  EXPECT_EQ(code_of_load(runtime.get(), {.device = "cpu,nowhere"}, &message), QUIRE_ERROR_NOT_FOUND);
}

TEST(Split, ParsesTheTextOfOptions) {
  const OwnedModelOptions options(quire_model_options_create(nullptr));
  const auto set = [&](auto* setter, const std::string& text) {
    return setter(options.get(), text.data(), text.size(), nullptr);
  };
  for (const char* text : {"auto", "1", "20,12", "0,0", "24G", "24G,512M", "0K,1G"})
    EXPECT_EQ(set(quire_model_options_set_split, text), 1);
  for (const char* text : {"", "x", "1,", "-1", "1.5", "99999999999", "20,12G", "12G,20", "1T,2T", "G",
                           "1.5G", "-1G", "1G,", "99999999999G"})
    EXPECT_EQ(set(quire_model_options_set_split, text), 0) << text;
  for (const char* text : {"0", "1024", "256M", "1G,512K"})
    EXPECT_EQ(set(quire_model_options_set_reserve, text), 1) << text;
  for (const char* text : {"", "M", "1T", "-1", "1 G", "99999999999G", "1,,2"})
    EXPECT_EQ(set(quire_model_options_set_reserve, text), 0) << text;
}

TEST(Plan, EqualsTheReportOfModelAndCache) {
  for (const auto& [device, split] : {std::pair<std::string, std::string>{"", ""}, {"cpu,cpu", "2,6"}}) {
    const OwnedRuntime runtime = make_runtime();
    const Choice choice{.device = device, .split = split};
    const Json plan = plan_of(runtime.get(), choice);
    const OwnedModelOptions options = options_for(choice);
    const OwnedModel model(
        quire_model_load(runtime.get(), options.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr));
    const OwnedCacheOptions cache_options = small_cache();
    const OwnedCache cache(quire_cache_create(model.get(), cache_options.get(), nullptr));
    const OwnedStats stats(quire_cache_stats(cache.get(), nullptr));
    const auto bytes = [&](const char* name) { return plan.at(name).get<int64_t>(); };
    EXPECT_EQ(bytes("embedding_bytes") + bytes("layer_bytes") + bytes("head_bytes"),
              quire_model_weight_bytes(model.get(), nullptr));
    EXPECT_EQ(bytes("kv_bytes") + bytes("workspace_bytes"), quire_stats_device_bytes(stats.get(), nullptr));
    EXPECT_EQ(bytes("total_bytes"), bytes("embedding_bytes") + bytes("layer_bytes") + bytes("head_bytes") +
                                        bytes("kv_bytes") + bytes("workspace_bytes"));
    const Json group = {
        {"window", 0}, {"num_pages", 2}, {"num_layers", 8}, {"bytes", plan.at("kv_bytes").get<int64_t>()}};
    EXPECT_EQ(plan.at("cache_groups"), Json::array({group}));
    EXPECT_EQ(plan.at("layers").size(), 8U);
    EXPECT_EQ(plan.at("layers")[2].at("device"), split.empty() ? 0 : 1);
  }
}

TEST(Plan, ForAShapeNeedsNoModel) {
  const OwnedRuntime runtime = make_runtime();
  const Json plan = plan_of(runtime.get(), {.path = "synthetic:llama-3.1-8b,format=exl2,bits=4.0"});
  const auto gigabytes = plan.at("total_bytes").get<double>() / 1e9;
  EXPECT_GT(gigabytes, 4.5);
  EXPECT_LT(gigabytes, 7.0);
  EXPECT_EQ(plan.at("layers").size(), 32U);
}

TEST(Plan, WithoutTheModelFails) {
  const OwnedRuntime runtime = make_runtime();
  const OwnedModelOptions options = options_for({.path = "/nonexistent/model"});
  Report report;
  EXPECT_EQ(quire_plan_create(runtime.get(), options.get(), nullptr, report.out()), nullptr);
  EXPECT_EQ(report.code(), QUIRE_ERROR_NOT_FOUND) << report.message();
}

}  // namespace
}  // namespace quire::testing

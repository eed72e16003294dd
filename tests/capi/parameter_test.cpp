// The parameter at fault of an error: every setter and argument out of range gives its name, and so does a
// request that is refused or fails.
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "tests/capi/capi_fixture.h"

namespace quire::testing {
namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr std::string_view kNoUtf8 = "\xFF";

// A call that has to fail because of one parameter.
struct Misuse {
  std::string_view parameter;
  std::function<bool(quire_error**)> succeeds;
};

std::string parameter_of(quire_error* error) {
  size_t length = 1;
  const char* const text = quire_error_parameter(error, &length);
  EXPECT_EQ(std::string_view(text).size(), length) << "zero-terminated too";
  return {text, length};
}

void expect_refused(const std::vector<Misuse>& misuses) {
  for (const Misuse& misuse : misuses) {
    quire_error* error = nullptr;
    EXPECT_FALSE(misuse.succeeds(&error)) << misuse.parameter;
    EXPECT_EQ(parameter_of(error), misuse.parameter) << quire_error_message(error, nullptr);
    quire_error_free(error);
  }
}

// A setter of a text, called with this text.
template <typename Handle>
std::function<bool(quire_error**)> with_text(int32_t (*set)(Handle*, const char*, size_t, quire_error**),
                                             Handle* handle, std::string_view text) {
  return [=](quire_error** error) { return set(handle, text.data(), text.size(), error) == 1; };
}

// A setter of a value, called with this value.
template <typename Handle, typename Value, typename Given>
std::function<bool(quire_error**)> with(int32_t (*set)(Handle*, Value, quire_error**), Handle* handle,
                                        Given value) {
  return [=](quire_error** error) { return set(handle, static_cast<Value>(value), error) == 1; };
}

template <typename Handle>
std::function<bool(quire_error**)> without_tokens(int32_t (*set)(Handle*, const int32_t*, size_t,
                                                                 quire_error**),
                                                  Handle* handle) {
  return [=](quire_error** error) { return set(handle, nullptr, 1, error) == 1; };
}

TEST(ErrorParameter, IsEmptyWithoutOne) {
  EXPECT_EQ(parameter_of(nullptr), "");
  EXPECT_STREQ(quire_error_parameter(nullptr, nullptr), "");
  Report report;
  EXPECT_EQ(quire_abi_check(QUIRE_ABI_MAJOR + 1, 0, report.out()), 0);
  EXPECT_EQ(report.parameter(), "");
  auto* const dead = reinterpret_cast<quire_error*>(uint64_t{1234});
  EXPECT_EQ(parameter_of(dead), "");
}

TEST(ErrorParameter, OfSettersOfOptionsIsTheSetting) {
  const OwnedRuntimeOptions runtime(quire_runtime_options_create(nullptr));
  const OwnedModelOptions model(quire_model_options_create(nullptr));
  const OwnedCacheOptions cache(quire_cache_options_create(nullptr));
  quire_runtime_options* const r = runtime.get();
  quire_model_options* const m = model.get();
  quire_cache_options* const c = cache.get();
  const std::string_view zero("a\0b", 3);
  expect_refused({
      {"options",
       with(quire_runtime_options_set_num_threads, static_cast<quire_runtime_options*>(nullptr), 1)},
      {"num_threads", with(quire_runtime_options_set_num_threads, r, 1025)},
      {"device", with_text(quire_runtime_options_set_device, r, zero)},
      {"stages", with_text(quire_runtime_options_set_stages, r, zero)},
      {"stage_key_file", with_text(quire_runtime_options_set_stage_key_file, r, zero)},
      {"stage_transport", with_text(quire_runtime_options_set_stage_transport, r, "rdma")},
      {"log_level", with(quire_runtime_options_set_log_level, r, 99)},
      {"memory_budget",
       [=](quire_error** e) { return quire_runtime_options_set_memory_budget(r, "cpu", 3, -1, e) == 1; }},
      {"path", with_text(quire_model_options_set_path, m, zero)},
      {"path", [=](quire_error** e) { return quire_model_options_set_path(m, nullptr, 5, e) == 1; }},
      {"device", with_text(quire_model_options_set_device, m, zero)},
      {"split", with_text(quire_model_options_set_split, m, "none")},
      {"reserve", with_text(quire_model_options_set_reserve, m, "much")},
      {"planned_cache",
       with(quire_model_options_set_planned_cache, m, reinterpret_cast<quire_cache_options*>(uint64_t{5}))},
      {"scope", with(quire_model_options_set_scope, m, 99)},
      {"lazy", with(quire_model_options_set_lazy, m, 2)},
      {"num_shards", with(quire_model_options_set_num_shards, m, 0)},
      {"activation_dtype", with(quire_model_options_set_activation_dtype, m, 99)},
      {"host_experts", with_text(quire_model_options_set_host_experts, m, zero)},
      {"drafter", with_text(quire_model_options_set_drafter, m, zero)},
      {"name", with_text(quire_cache_options_set_name, c, kNoUtf8)},
      {"max_tokens", with(quire_cache_options_set_max_tokens, c, -1)},
      {"min_tokens", with(quire_cache_options_set_min_tokens, c, -1)},
      {"page_idle_ns", with(quire_cache_options_set_page_idle_ns, c, -1)},
      {"page_tokens", with(quire_cache_options_set_page_tokens, c, 0)},
      {"max_batch_size", with(quire_cache_options_set_max_batch_size, c, 0)},
      {"window_sequences", with(quire_cache_options_set_window_sequences, c, -1)},
      {"max_chunk_tokens", with(quire_cache_options_set_max_chunk_tokens, c, 0)},
      {"max_seq_len", with(quire_cache_options_set_max_seq_len, c, -1)},
      {"max_queue", with(quire_cache_options_set_max_queue, c, 0)},
      {"kv_format", with(quire_cache_options_set_kv_format, c, 99)},
      {"quota", [=](quire_error** e) { return quire_cache_options_set_quota(c, 99, 1, e) == 1; }},
      {"quota", [=](quire_error** e) { return quire_cache_options_set_quota(c, 0, -1, e) == 1; }},
      {"namespace_quota",
       [=](quire_error** e) { return quire_cache_options_set_namespace_quota(c, "a", 1, 0, -1, e) == 1; }},
      {"namespace_weight",
       [=](quire_error** e) { return quire_cache_options_set_namespace_weight(c, "a", 1, 0.0, e) == 1; }},
      {"device_weight", with(quire_cache_options_set_device_weight, c, -1.0)},
      {"step_stretch", with(quire_cache_options_set_step_stretch, c, 0.5)},
      {"card_expert_bytes", with(quire_cache_options_set_card_expert_bytes, c, -1)},
      {"prefix_bytes", with(quire_cache_options_set_prefix_bytes, c, -1)},
      {"prefix_directory", with_text(quire_cache_options_set_prefix_directory, c, zero)},
      {"prefix_directory_bytes", with(quire_cache_options_set_prefix_directory_bytes, c, -1)},
      {"max_pinned_pages", with(quire_cache_options_set_max_pinned_pages, c, -1)},
      {"max_overtakes", with(quire_cache_options_set_max_overtakes, c, -1)},
      {"ageing_ns", with(quire_cache_options_set_ageing_ns, c, -1)},
      {"step_timeout_ns", with(quire_cache_options_set_step_timeout_ns, c, -1)},
      {"close_timeout_ns", with(quire_cache_options_set_close_timeout_ns, c, -1)},
      {"drafter", with(quire_cache_options_set_drafter, c, 4)},
      {"max_drafts", with(quire_cache_options_set_max_drafts, c, 16)},
  });
}

TEST(ErrorParameter, OfSettersOfARequestIsTheSetting) {
  const OwnedRequest request(quire_job_request_create(nullptr));
  quire_job_request* const r = request.get();
  expect_refused({
      {"request", with(quire_job_request_set_top_k, static_cast<quire_job_request*>(nullptr), 1)},
      {"kind", with(quire_job_request_set_kind, r, 99)},
      {"prompt", [=](quire_error** e) { return quire_job_request_set_prompt_text(r, nullptr, 1, e) == 1; }},
      {"prompt", without_tokens(quire_job_request_set_prompt_tokens, r)},
      {"prompt", without_tokens(quire_job_request_add_prompt_tokens, r)},
      {"messages", with_text(quire_job_request_add_messages, r, "[{]")},
      {"messages", with_text(quire_job_request_add_messages, r, "[{\"content\": \"Hi\"}]")},
      {"messages", with_text(quire_job_request_add_messages, r, "3")},
      {"tools", with_text(quire_job_request_set_tools, r, "{}")},
      {"tools", with_text(quire_job_request_set_tools, r, "[")},
      {"template_arguments", with_text(quire_job_request_set_template_arguments, r, "[]")},
      {"template_arguments", with_text(quire_job_request_set_template_arguments, r, "{\"tools\": 1}")},
      {"chat_template",
       with(quire_job_request_set_chat_template, r, reinterpret_cast<quire_chat_template*>(uint64_t{5}))},
      {"add_special", with(quire_job_request_set_add_special, r, 2)},
      {"parse_special", with(quire_job_request_set_parse_special, r, 2)},
      {"max_new_tokens", with(quire_job_request_set_max_new_tokens, r, 0)},
      {"min_new_tokens", with(quire_job_request_set_min_new_tokens, r, -1)},
      {"max_drafts", with(quire_job_request_set_max_drafts, r, 16)},
      {"stop_tokens", without_tokens(quire_job_request_set_stop_tokens, r)},
      {"stop_texts", with_text(quire_job_request_add_stop_text, r, "")},
      {"banned_texts", with_text(quire_job_request_add_banned_text, r, "")},
      {"heal_prompt", with(quire_job_request_set_heal_prompt, r, 2)},
      {"negative_prompt", without_tokens(quire_job_request_set_negative_prompt_tokens, r)},
      {"guidance_scale", with(quire_job_request_set_guidance_scale, r, -1.0)},
      {"ignore_eos", with(quire_job_request_set_ignore_eos, r, 2)},
      {"loop_guard", [=](quire_error** e) { return quire_job_request_set_loop_guard(r, 1, 1, e) == 1; }},
      {"constraint",
       with(quire_job_request_set_constraint, r, reinterpret_cast<quire_constraint*>(uint64_t{5}))},
      {"sampling_preset", with_text(quire_job_request_set_sampling_preset, r, "wild")},
      {"sampling_of_model", with(quire_job_request_set_sampling_of_model, r, nullptr)},
      {"random_seed", with(quire_job_request_set_random_seed, r, 2)},
      {"repetition_penalty", with(quire_job_request_set_repetition_penalty, r, 0.0)},
      {"frequency_penalty", with(quire_job_request_set_frequency_penalty, r, kNaN)},
      {"presence_penalty", with(quire_job_request_set_presence_penalty, r, kNaN)},
      {"penalty_range", with(quire_job_request_set_penalty_range, r, -2)},
      {"penalty_decay", with(quire_job_request_set_penalty_decay, r, -1)},
      {"dry_multiplier", with(quire_job_request_set_dry_multiplier, r, -1.0)},
      {"dry_base", with(quire_job_request_set_dry_base, r, 0.0)},
      {"dry_allowed_length", with(quire_job_request_set_dry_allowed_length, r, 0)},
      {"dry_max_length", with(quire_job_request_set_dry_max_length, r, 0)},
      {"dry_range", with(quire_job_request_set_dry_range, r, -2)},
      {"dry_breakers", without_tokens(quire_job_request_set_dry_breakers, r)},
      {"logit_biases", [=](quire_error** e) { return quire_job_request_add_logit_bias(r, -1, 1.0, e) == 1; }},
      {"logit_biases", [=](quire_error** e) { return quire_job_request_add_logit_bias(r, 1, kNaN, e) == 1; }},
      {"logit_biases",
       [=](quire_error** e) { return quire_job_request_set_logit_biases(r, nullptr, 1, 1.0, e) == 1; }},
      {"banned_tokens", without_tokens(quire_job_request_set_banned_tokens, r)},
      {"temperature", with(quire_job_request_set_temperature, r, 101.0)},
      {"smoothing_factor", with(quire_job_request_set_smoothing_factor, r, -1.0)},
      {"min_temperature", with(quire_job_request_set_min_temperature, r, 0.0)},
      {"max_temperature", with(quire_job_request_set_max_temperature, r, 0.0)},
      {"temperature_exponent", with(quire_job_request_set_temperature_exponent, r, 0.0)},
      {"top_n_sigma", with(quire_job_request_set_top_n_sigma, r, -1.0)},
      {"top_k", with(quire_job_request_set_top_k, r, -1)},
      {"top_p", with(quire_job_request_set_top_p, r, 0.0)},
      {"top_a", with(quire_job_request_set_top_a, r, 2.0)},
      {"min_p", with(quire_job_request_set_min_p, r, 2.0)},
      {"tail_free", with(quire_job_request_set_tail_free, r, 2.0)},
      {"typical", with(quire_job_request_set_typical, r, 0.0)},
      {"mirostat_tau", with(quire_job_request_set_mirostat_tau, r, -1.0)},
      {"mirostat_eta", with(quire_job_request_set_mirostat_eta, r, -1.0)},
      {"xtc_probability", with(quire_job_request_set_xtc_probability, r, 2.0)},
      {"xtc_threshold", with(quire_job_request_set_xtc_threshold, r, 2.0)},
      {"xtc_ignored", without_tokens(quire_job_request_set_xtc_ignored, r)},
      {"skew", with(quire_job_request_set_skew, r, 6.0)},
      {"sampler_order", with_text(quire_job_request_set_sampler_order, r, "top_q")},
      {"response_dialect", with_text(quire_job_request_set_response_dialect, r, "klingon")},
      {"reasoning", with(quire_job_request_set_reasoning, r, 99)},
      {"reasoning_budget", with(quire_job_request_set_reasoning_budget, r, -2)},
      {"emit_special", with(quire_job_request_set_emit_special, r, 2)},
      {"json_order", with(quire_job_request_set_json_order, r, 2)},
      {"json_closed", with(quire_job_request_set_json_closed, r, 2)},
      {"json_plain_integers", with(quire_job_request_set_json_plain_integers, r, -1)},
      {"json_space", with(quire_job_request_set_json_space, r, 3)},
      {"log_probs", with(quire_job_request_set_log_probs, r, 2)},
      {"top_log_probs", with(quire_job_request_set_top_log_probs, r, -1)},
      {"raw_logits", with(quire_job_request_set_raw_logits, r, 2)},
      {"pooling", with(quire_job_request_set_pooling, r, 99)},
      {"normalize", with(quire_job_request_set_normalize, r, 2)},
      {"queue", with(quire_job_request_set_queue, r, reinterpret_cast<quire_queue*>(uint64_t{5}))},
      {"event_policy", with(quire_job_request_set_event_policy, r, 99)},
      {"max_unread_events", with(quire_job_request_set_max_unread_events, r, 1)},
      {"progress_events", with(quire_job_request_set_progress_events, r, 2)},
      {"namespace", with_text(quire_job_request_set_namespace, r, kNoUtf8)},
      {"priority", with(quire_job_request_set_priority, r, 1001)},
      {"queue_deadline_ns", with(quire_job_request_set_queue_deadline_ns, r, -1)},
      {"first_token_deadline_ns", with(quire_job_request_set_first_token_deadline_ns, r, -1)},
      {"deadline_ns", with(quire_job_request_set_deadline_ns, r, -1)},
      {"reserve_whole", with(quire_job_request_set_reserve_whole, r, 2)},
      {"reuse_prefix", with(quire_job_request_set_reuse_prefix, r, 2)},
      {"publish_pages", with(quire_job_request_set_publish_pages, r, 2)},
  });
}

// Calls a setter or two on a request that is right otherwise.
using Spoil = std::function<void(quire_job_request*)>;

TEST(ErrorParameter, OfARefusedRequestIsTheSetting) {
  const World world;
  struct Case {
    std::string_view parameter;
    Spoil spoil;
  };
  const int32_t far_token = 1 << 20;
  const std::string long_prompt(1 << 14, 'a');
  const std::vector<Case> cases = {
      {"prompt", [](quire_job_request* r) { quire_job_request_clear_prompt(r, nullptr); }},
      {"prompt", [](quire_job_request* r) { quire_job_request_set_prompt_text(r, "\xFF", 1, nullptr); }},
      {"prompt", [](quire_job_request* r) { quire_job_request_set_prompt_text(r, "", 0, nullptr); }},
      {"prompt",
       [&](quire_job_request* r) { quire_job_request_set_prompt_tokens(r, &far_token, 1, nullptr); }},
      {"prompt",
       [&](quire_job_request* r) {
         quire_job_request_set_prompt_text(r, long_prompt.data(), long_prompt.size(), nullptr);
       }},
      {"prompt", [](quire_job_request* r) { quire_job_request_add_prompt_special(r, "<no>", 4, nullptr); }},
      {"messages",
       [](quire_job_request* r) {
         constexpr std::string_view kMessage = R"({"role": "user", "content": "Hi"})";
         quire_job_request_clear_prompt(r, nullptr);
         quire_job_request_add_messages(r, kMessage.data(), kMessage.size(), nullptr);
       }},
      {"negative_prompt",
       [](quire_job_request* r) {
         quire_job_request_set_guidance_scale(r, 2.0, nullptr);
         quire_job_request_set_negative_prompt_text(r, "\xFF", 1, nullptr);
       }},
      {"guidance_scale", [](quire_job_request* r) { quire_job_request_set_guidance_scale(r, 2.0, nullptr); }},
      {"min_new_tokens", [](quire_job_request* r) { quire_job_request_set_min_new_tokens(r, 9, nullptr); }},
      {"max_drafts", [](quire_job_request* r) { quire_job_request_set_max_drafts(r, 5, nullptr); }},
      {"stop_tokens",
       [&](quire_job_request* r) { quire_job_request_set_stop_tokens(r, &far_token, 1, nullptr); }},
      {"stop_texts", [](quire_job_request* r) { quire_job_request_add_stop_text(r, "\xFF", 1, nullptr); }},
      {"banned_texts",
       [](quire_job_request* r) { quire_job_request_add_banned_text(r, "\xFF", 1, nullptr); }},
      {"logit_biases",
       [&](quire_job_request* r) { quire_job_request_add_logit_bias(r, far_token, 1.0, nullptr); }},
      {"banned_tokens",
       [&](quire_job_request* r) { quire_job_request_set_banned_tokens(r, &far_token, 1, nullptr); }},
      {"max_temperature",
       [](quire_job_request* r) {
         quire_job_request_set_min_temperature(r, 2.0, nullptr);
         quire_job_request_set_max_temperature(r, 1.0, nullptr);
       }},
      {"sampler_order",
       [](quire_job_request* r) {
         quire_job_request_set_top_k(r, 3, nullptr);
         quire_job_request_set_sampler_order(r, "temperature", 11, nullptr);
       }},
      {"dry_max_length",
       [](quire_job_request* r) {
         quire_job_request_set_dry_allowed_length(r, 9, nullptr);
         quire_job_request_set_dry_max_length(r, 8, nullptr);
       }},
      {"raw_logits", [](quire_job_request* r) { quire_job_request_set_raw_logits(r, 1, nullptr); }},
      {"tools", [](quire_job_request* r) { quire_job_request_set_tools(r, "[{}]", 4, nullptr); }},
      {"template_arguments",
       [](quire_job_request* r) { quire_job_request_set_template_arguments(r, "{\"a\": 1}", 8, nullptr); }},
      {"reasoning",
       [](quire_job_request* r) { quire_job_request_set_reasoning(r, QUIRE_REASONING_OPEN, nullptr); }},
      {"heal_prompt",
       [&](quire_job_request* r) {
         const OwnedConstraint any(
             quire_constraint_create(world.model.get(), QUIRE_CONSTRAINT_REGEX, "a+", 2, nullptr));
         quire_job_request_set_constraint(r, any.get(), nullptr);
         quire_job_request_set_heal_prompt(r, 1, nullptr);
       }},
  };
  for (const auto& [parameter, spoil] : cases) {
    const OwnedRequest request = make_request("x", 8);
    spoil(request.get());
    Report report;
    EXPECT_FALSE(OwnedJob(quire_job_submit(world.cache.get(), request.get(), report.out()))) << parameter;
    EXPECT_EQ(report.parameter(), parameter) << report.message();
  }
}

TEST(ErrorParameter, OfOtherCallsIsTheArgument) {
  const World world;
  quire_model* const model = world.model.get();
  quire_cache* const cache = world.cache.get();
  const auto constrain = [=](int32_t kind, std::string_view source) {
    return [=](quire_error** e) {
      return bool(OwnedConstraint(quire_constraint_create(model, kind, source.data(), source.size(), e)));
    };
  };
  const auto rules = [=](std::string_view source) {
    return [=](quire_error** e) {
      return bool(OwnedConstraint(quire_response_constraint_create(model, source.data(), source.size(), e)));
    };
  };
  expect_refused({
      {"model", [](quire_error** e) { return bool(OwnedCache(quire_cache_create(nullptr, nullptr, e))); }},
      {"cache", [=](quire_error** e) { return quire_cache_max_seq_len(nullptr, e) >= 0; }},
      {"kind", constrain(99, "a")},
      {"schema", constrain(QUIRE_CONSTRAINT_JSON_SCHEMA, "{\"type\": \"circle\"}")},
      {"schema", constrain(QUIRE_CONSTRAINT_JSON_SCHEMA, "{")},
      {"pattern", constrain(QUIRE_CONSTRAINT_REGEX, "(")},
      {"choice", constrain(QUIRE_CONSTRAINT_CHOICE, "{}")},
      {"grammar", constrain(QUIRE_CONSTRAINT_GBNF, "a ::= b")},
      {"grammar", constrain(QUIRE_CONSTRAINT_LARK, "start: b")},
      {"text", rules("{")},
      {"dialect", rules(R"({"dialect": "klingon"})")},
      {"reasoning", rules(R"({"dialect": "plain", "reasoning": "much"})")},
      {"tools", rules(R"({"dialect": "hermes", "tools": [{"function": {"name": ""}}]})")},
      {"tool_choice", rules(R"({"dialect": "hermes", "tool_choice": "required"})")},
      {"response_format", rules(R"({"dialect": "plain", "response_format": {"type": "poem"}})")},
      {"response_format",
       rules(
           R"({"dialect": "plain", "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "x"}}}})")},
      {"text",
       [](quire_error** e) { return bool(OwnedChatTemplate(quire_chat_template_create("{% if", 5, e))); }},
      {"tokens",
       [=](quire_error** e) { return quire_model_decode(model, nullptr, 1, 0, nullptr, 0, e) >= 0; }},
      {"out_tokens",
       [=](quire_error** e) { return quire_model_encode(model, "a", 1, 0, 0, nullptr, 4, e) >= 0; }},
      {"add_special",
       [=](quire_error** e) { return quire_model_encode(model, "a", 1, 2, 0, nullptr, 0, e) >= 0; }},
      {"text",
       [=](quire_error** e) { return quire_model_encode(model, "\xFF", 1, 0, 0, nullptr, 0, e) >= 0; }},
      {"token", [=](quire_error** e) { return quire_model_is_special(model, -1, e) >= 0; }},
      {"tensor_idx", [=](quire_error** e) { return quire_model_tensor_layer(model, -5, e) >= 0; }},
      {"figure", [=](quire_error** e) { return quire_model_figure(model, 99, e) >= 0; }},
      {"priority", [=](quire_error** e) { return quire_model_set_priority(model, 1001, e) == 1; }},
      {"limit", [=](quire_error** e) { return quire_cache_set_quota(cache, 0, -1, e) == 1; }},
      {"weight", [=](quire_error** e) { return quire_cache_set_device_weight(cache, 0.0, e) == 1; }},
      {"pin", [=](quire_error** e) { return quire_cache_unpin(cache, 0, e) == 1; }},
  });
}

// The options of a cache or a load are checked against the model when they are used.
TEST(ErrorParameter, OfALoadOrCacheIsTheOption) {
  const World world;
  const OwnedCacheOptions options(quire_cache_options_create(nullptr));
  quire_cache_options_set_max_seq_len(options.get(), int64_t{1} << 40, nullptr);
  Report report;
  EXPECT_FALSE(OwnedCache(quire_cache_create(world.model.get(), options.get(), report.out())));
  EXPECT_EQ(report.parameter(), "max_seq_len") << report.message();
  const OwnedModelOptions load(quire_model_options_create(nullptr));
  EXPECT_FALSE(OwnedModel(quire_model_load(world.runtime.get(), load.get(), -1, nullptr, report.out())));
  EXPECT_EQ(report.parameter(), "path") << report.message();
  quire_model_options_set_path(load.get(), tiny_model_path().data(), tiny_model_path().size(), nullptr);
  quire_model_options_set_device(load.get(), "abacus", 6, nullptr);
  EXPECT_FALSE(OwnedModel(quire_model_load(world.runtime.get(), load.get(), -1, nullptr, report.out())));
  EXPECT_EQ(report.parameter(), "device") << report.message();
}

TEST(ErrorParameter, OfAFailedJobComesWithItsLastEvent) {
  const World world;
  const OwnedConstraint beyond(
      quire_constraint_create(world.model.get(), QUIRE_CONSTRAINT_REGEX, "ab\xC3\xA9", 4, nullptr));
  const OwnedRequest request = make_request("x", 8);
  quire_job_request_set_constraint(request.get(), beyond.get(), nullptr);
  const OwnedJob job(quire_job_submit(world.cache.get(), request.get(), nullptr));
  std::string parameter = "none";
  while (const OwnedEvent event{next_event(job.get(), QUIRE_WAIT_FOREVER, nullptr)}) {
    size_t length = 0;
    const char* const text = quire_event_error_parameter(event.get(), &length, nullptr);
    ASSERT_NE(text, nullptr);
    parameter.assign(text, length);
    if (quire_event_type(event.get(), nullptr) != QUIRE_EVENT_ERROR) {
      EXPECT_EQ(parameter, "");
    }
  }
  EXPECT_EQ(parameter, "constraint");
}

}  // namespace
}  // namespace quire::testing

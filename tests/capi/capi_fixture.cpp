#include "tests/capi/capi_fixture.h"

#include <nlohmann/json.hpp>

namespace quire::testing {
namespace {

constexpr int kTokenizerSize = 3 + 256;

// Returns the character, as UTF-8, with which byte-level tokenizers write a byte (GPT-2's alphabet).
std::string letter_of(int byte) {
  const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  int code_point = byte;
  if (!printable) {
    code_point = 256;
    for (int b = 0; b < byte; ++b) {
      if (!((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174)) ++code_point;
    }
  }
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xc0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 0x3f))};
}

// Three special tokens, then one token per byte: byte b is id b + 3.
std::string tiny_tokenizer() {
  nlohmann::ordered_json vocabulary = {{"<pad>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (int id = 3; id < kTokenizerSize; ++id) vocabulary[letter_of(id - 3)] = id;
  nlohmann::ordered_json added = nlohmann::ordered_json::array();
  const char* const names[] = {"<pad>", "<s>", "</s>"};
  for (int id = 0; id < 3; ++id) {
    added.push_back({{"id", id},
                     {"content", names[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const nlohmann::ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return nlohmann::ordered_json{{"version", "1.0"},
                                {"truncation", nullptr},
                                {"padding", nullptr},
                                {"added_tokens", added},
                                {"normalizer", nullptr},
                                {"pre_tokenizer", byte_level},
                                {"post_processor", nullptr},
                                {"decoder", byte_level},
                                {"model",
                                 {{"type", "BPE"},
                                  {"dropout", nullptr},
                                  {"unk_token", nullptr},
                                  {"continuing_subword_prefix", nullptr},
                                  {"end_of_word_suffix", nullptr},
                                  {"fuse_unk", false},
                                  {"byte_fallback", false},
                                  {"vocab", vocabulary},
                                  {"merges", nlohmann::ordered_json::array()}}}}
      .dump();
}

class TinyModel {
 public:
  TinyModel() {
    const std::filesystem::path source = std::string(QUIRE_TEST_DATA) + "/architectures/llama3";
    for (const char* const name : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(source / name, directory_.file(name));
    }
    directory_.write("tokenizer.json", tiny_tokenizer());
  }
  const std::string& path() const { return directory_.path(); }

 private:
  TempDirectory directory_;
};

}  // namespace

const std::string& tiny_model_path() {
  static const TinyModel model;
  return model.path();
}

std::string embedded_model_path() {
  return std::filesystem::path(std::string(QUIRE_TEST_DATA) + "/../../packaging/model/story-15m-exl2-4.0bpw")
      .lexically_normal();
}

OwnedRuntime make_runtime() {
  const OwnedRuntimeOptions options(quire_runtime_options_create(nullptr));
  EXPECT_EQ(quire_runtime_options_set_num_threads(options.get(), 1, nullptr), 1);
  Report report;
  OwnedRuntime runtime(quire_runtime_create(options.get(), report.out()));
  EXPECT_TRUE(runtime) << report.message();
  return runtime;
}

OwnedModel load_model(quire_runtime* runtime, const std::string& path, int32_t scope) {
  const OwnedModelOptions options(quire_model_options_create(nullptr));
  EXPECT_EQ(quire_model_options_set_path(options.get(), path.data(), path.size(), nullptr), 1);
  EXPECT_EQ(quire_model_options_set_scope(options.get(), scope, nullptr), 1);
  Report report;
  OwnedModel model(quire_model_load(runtime, options.get(), QUIRE_WAIT_FOREVER, nullptr, report.out()));
  EXPECT_TRUE(model) << report.message();
  return model;
}

OwnedCache make_cache(quire_model* model) {
  const OwnedCacheOptions options(quire_cache_options_create(nullptr));
  EXPECT_EQ(quire_cache_options_set_page_tokens(options.get(), 4, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_max_tokens(options.get(), 4096, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_max_batch_size(options.get(), 16, nullptr), 1);
  EXPECT_EQ(quire_cache_options_set_max_chunk_tokens(options.get(), 32, nullptr), 1);
  Report report;
  OwnedCache cache(quire_cache_create(model, options.get(), report.out()));
  EXPECT_TRUE(cache) << report.message();
  return cache;
}

OwnedRequest make_prompt(std::string_view prompt) {
  OwnedRequest request(quire_job_request_create(nullptr));
  EXPECT_EQ(quire_job_request_set_prompt_text(request.get(), prompt.data(), prompt.size(), nullptr), 1);
  return request;
}

OwnedRequest make_request(std::string_view prompt, int32_t max_new_tokens) {
  OwnedRequest request = make_prompt(prompt);
  EXPECT_EQ(quire_job_request_set_max_new_tokens(request.get(), max_new_tokens, nullptr), 1);
  EXPECT_EQ(quire_job_request_set_temperature(request.get(), 0.0, nullptr), 1);
  EXPECT_EQ(quire_job_request_set_ignore_eos(request.get(), 1, nullptr), 1);
  return request;
}

void add_event(Collected& collected, quire_event* event) {
  size_t length = 0;
  const char* const text = quire_event_text(event, &length, nullptr);
  collected.text.append(text, length);
  const size_t known = collected.tokens.size();
  const auto added = static_cast<size_t>(quire_event_tokens(event, nullptr, 0, nullptr));
  collected.tokens.resize(known + added);
  quire_event_tokens(event, collected.tokens.data() + known, added, nullptr);
  collected.last_type = quire_event_type(event, nullptr);
  if (collected.last_type != QUIRE_EVENT_FINISHED && collected.last_type != QUIRE_EVENT_ERROR) return;
  ++collected.num_last_events;
  collected.finish_reason = quire_event_finish_reason(event, nullptr);
  collected.error_code = quire_event_error_code(event, nullptr);
}

quire_event* next_event(quire_job* job, int64_t timeout_ns, quire_error** error, int32_t* end) {
  quire_event* event = nullptr;
  const int32_t result = quire_job_poll(job, timeout_ns, nullptr, &event, error);
  if (end != nullptr) *end = result;
  return event;
}

quire_event* next_event(quire_queue* queue, int64_t timeout_ns, quire_error** error, int32_t* end) {
  quire_event* event = nullptr;
  const int32_t result = quire_queue_poll(queue, timeout_ns, nullptr, &event, error);
  if (end != nullptr) *end = result;
  return event;
}

OwnedRequest request_of_tokens(const int32_t* tokens, size_t num_tokens) {
  OwnedRequest request(quire_job_request_create(nullptr));
  quire_job_request_set_prompt_tokens(request.get(), tokens, num_tokens, nullptr);
  return request;
}

Collected collect(quire_job* job) {
  Collected collected;
  for (;;) {
    Report report;
    const OwnedEvent event(next_event(job, QUIRE_WAIT_FOREVER, report.out()));
    EXPECT_EQ(report.code(), QUIRE_ERROR_OK) << report.message();
    if (!event) return collected;
    add_event(collected, event.get());
  }
}

int64_t num_live_handles() {
  std::string text(1 << 16, '\0');
  const int64_t size = quire_diagnose(QUIRE_DIAGNOSE_JSON, text.data(), text.size(), nullptr);
  EXPECT_GT(size, 0);
  int64_t sum = 0;
  const auto report = nlohmann::json::parse(text.substr(0, static_cast<size_t>(size)));
  for (const auto& [name, count] : report.at("live_handles").items()) {
    if (name != "quire_error") sum += count.get<int64_t>();
  }
  return sum;
}

}  // namespace quire::testing

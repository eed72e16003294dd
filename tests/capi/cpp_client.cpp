// A client in C++17 of quire/quire.hpp and the library alone, with the embedded model. Exits with 0 if all
// holds.
#include <iostream>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <quire/quire.hpp>

namespace {

int num_failures = 0;

void check(bool holds, const std::string& what) {
  if (holds) return;
  std::cerr << "does not hold: " << what << "\n";
  ++num_failures;
}

// Returns the message of the error that `function` throws; empty if it throws none, or one of another code.
template <typename Function>
std::string refusal(int32_t code, Function&& function) {
  try {
    function();
  } catch (const quire::Error& error) {
    if (error.code() == code) return error.what();
  }
  return {};
}

quire::Request request_of(std::string_view prompt, int32_t max_new_tokens) {
  quire::Request request(quire::call(quire_job_request_create));
  quire::call(quire_job_request_set_prompt_text, request, prompt);
  quire::call(quire_job_request_set_max_new_tokens, request, max_new_tokens);
  quire::call(quire_job_request_set_temperature, request, 0.0);
  return request;
}

std::string text_of_job(const quire::Job& job) {
  std::string text;
  while (const quire::Event event = quire::next(job)) {
    quire::throw_if_failed(event);
    text += quire::text_of(quire_event_text, event);
  }
  return text;
}

void check_load(const quire::Runtime& runtime, const quire::ModelOptions& options) {
  int num_reports = 0;
  bool is_thrown = false;
  try {
    quire::load(runtime, options, [&](int64_t, int64_t) {
      ++num_reports;
      throw std::runtime_error("enough");
    });
  } catch (const std::runtime_error& error) {
    is_thrown = std::string(error.what()) == "enough";
  }
  check(is_thrown && num_reports == 1, "an exception of the progress comes out of the load, once");
  int64_t done = 0;
  int64_t total = -1;
  const quire::Model model = quire::load(runtime, options, [&](int64_t done_bytes, int64_t total_bytes) {
    done = done_bytes;
    total = total_bytes;
  });
  check(model != nullptr && done == total && done > 0, "the last report is the whole");
  const quire::Cancel cancel(quire::call(quire_cancel_create));
  quire::call(quire_cancel_trigger, cancel);
  const std::string ended =
      refusal(QUIRE_ERROR_CANCELLED, [&] { quire::load(runtime, options, {}, cancel); });
  check(!ended.empty(), "a triggered cancel ends the load");
}

void check_errors(const quire::Runtime& runtime, const quire::Cache& cache) {
  const quire::ModelOptions options(quire::call(quire_model_options_create));
  quire::call(quire_model_options_set_path, options, std::string("/no/such/model"));
  check(refusal(QUIRE_ERROR_NOT_FOUND, [&] { quire::load(runtime, options); }).find("/no/such/model") !=
            std::string::npos,
        "the error of a load names the path");
  const quire::Request request = request_of("Once", 1);
  try {
    quire::call(quire_job_request_set_temperature, request, -1.0);
    check(false, "a negative temperature is refused");
  } catch (const quire::Error& error) {
    check(error.parameter() == "temperature" && !error.is_retryable(), "the error names its parameter");
  }
  const quire::Request empty(quire::call(quire_job_request_create));
  const auto submit_empty = [&] { quire::call(quire_job_submit, cache, empty); };
  check(!refusal(QUIRE_ERROR_INVALID_ARGUMENT, submit_empty).empty(),
        "a request without a prompt is refused");
}

void check_jobs(const quire::Model& model, const quire::Cache& cache) {
  const std::string prompt = "Once upon a time";
  const quire::Job by_text(quire::call(quire_job_submit, cache, request_of(prompt, 12)));
  const std::string text = text_of_job(by_text);
  check(!text.empty(), "a job generates");
  const auto tokens = quire::values_of<int32_t>(quire_model_encode, model, prompt, 1, 0);
  check(tokens.size() > 3, "a text has tokens");
  quire::Request request = request_of("another", 12);
  quire::call(quire_job_request_set_prompt_tokens, request, tokens);
  quire::Job by_tokens(quire::call(quire_job_submit, cache, request));
  check(text_of_job(by_tokens) == text, "the tokens of a prompt are its text");
  const quire::Job moved = std::move(by_tokens);
  check(by_tokens == nullptr && quire::call(quire_job_new_tokens, moved) == 12, "a handle moves");
  check(quire::next(moved, 0) == nullptr, "after the end there is no event");
  check(quire::text_of(quire_model_decode, model, tokens, 1) == prompt, "tokens are a text");
}

int run(const char* path) {
  static_assert(!std::is_copy_constructible_v<quire::Model> &&
                std::is_nothrow_move_constructible_v<quire::Model>);
  static_assert(sizeof(quire::Model) == sizeof(void*));
  const quire::Runtime runtime(quire::call(quire_runtime_create, nullptr));
  const quire::ModelOptions options(quire::call(quire_model_options_create));
  quire::call(quire_model_options_set_path, options, path);
  check_load(runtime, options);
  const quire::Model model = quire::load(runtime, options);
  const quire::Cache cache(quire::call(quire_cache_create, model, nullptr));
  check_errors(runtime, cache);
  check_jobs(model, cache);
  return num_failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}

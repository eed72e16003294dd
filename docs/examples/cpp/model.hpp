// Common parts of the examples: a model with its cache, and a request of a conversation.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include <quire/quire.hpp>

struct Opened {
  quire::Runtime runtime;
  quire::Model model;
  quire::Cache cache;
};

inline Opened open_model(std::string_view path) {
  quire::Runtime runtime(quire::call(quire_runtime_create, nullptr));
  const quire::ModelOptions options(quire::call(quire_model_options_create));
  quire::call(quire_model_options_set_path, options, path);
  quire::Model model = quire::load(runtime, options);
  quire::Cache cache(quire::call(quire_cache_create, model, nullptr));
  return {std::move(runtime), std::move(model), std::move(cache)};
}

// Returns a request with the sampling that the model's authors recommend, if they recommend any.
inline quire::Request request_of(const Opened& all, std::string_view messages, int32_t max_new_tokens) {
  quire::Request request(quire::call(quire_job_request_create));
  try {
    quire::call(quire_job_request_set_sampling_of_model, request, all.model);
  } catch (const quire::Error& error) {
    if (error.code() != QUIRE_ERROR_NOT_FOUND) throw;
  }
  quire::call(quire_job_request_add_messages, request, messages);
  quire::call(quire_job_request_set_max_new_tokens, request, max_new_tokens);
  return request;
}

// Runs an example on the model of the first argument, and prints its error.
template <typename Example>
int run(int argc, char** argv, Example&& example) {
  try {
    example(open_model(argc > 1 ? argv[1] : ""));
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return EXIT_FAILURE;
  }
}

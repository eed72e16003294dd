/*
 * Generates from one prompt after another on a cache that stores prefixes in files, and closes it. Prints for
 * each prompt how many tokens were cached, the new tokens and the bits of all log probabilities; at the end,
 * how many prefix files were refused.
 * Usage: prefix_client MODEL DIRECTORY PROMPT...
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quire/quire.h"

enum { num_new_tokens = 6, num_top = 20, longest_event = 4096 };

static void check(int holds, const char* what, quire_error* error) {
  if (holds) return;
  fprintf(stderr, "%s: %s\n", what, error == NULL ? "" : quire_error_message(error, NULL));
  exit(1);
}

static void print_floats(const float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits = 0;
    memcpy(&bits, values + i, sizeof bits);
    printf(" %08" PRIx32, bits);
  }
}

static void print_event(quire_event* event) {
  static int32_t tokens[longest_event];
  static float values[longest_event];
  const int64_t num_tokens = quire_event_tokens(event, tokens, longest_event, NULL);
  for (int64_t i = 0; i < num_tokens && i < longest_event; ++i) printf(" %" PRId32, tokens[i]);
  print_floats(values, quire_event_log_probs(event, values, longest_event, NULL));
  print_floats(values, quire_event_top_log_probs(event, values, longest_event, NULL));
}

static void generate(quire_cache* cache, const char* prompt) {
  quire_error* error = NULL;
  quire_job_request* request = quire_job_request_create(&error);
  check(request != NULL, "request", error);
  quire_job_request_set_prompt_text(request, prompt, strlen(prompt), NULL);
  quire_job_request_set_max_new_tokens(request, num_new_tokens, NULL);
  quire_job_request_set_temperature(request, 0.0F, NULL);
  quire_job_request_set_log_probs(request, 1, NULL);
  quire_job_request_set_top_log_probs(request, num_top, NULL);
  quire_job* job = quire_job_submit(cache, request, &error);
  check(job != NULL, "submit", error);
  printf("computed");
  for (int32_t is_over = 0; !is_over;) {
    quire_event* event = NULL;
    check(quire_job_poll(job, QUIRE_WAIT_FOREVER, NULL, &event, &error) == 1, "poll", error);
    print_event(event);
    is_over = quire_event_finish_reason(event, NULL) != QUIRE_FINISH_NONE;
    quire_event_free(event, NULL);
  }
  printf("\nfound %" PRId64 "\n", quire_job_cached_tokens(job, NULL));
  quire_job_free(job, NULL);
  quire_job_request_free(request, NULL);
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  quire_error* error = NULL;
  quire_runtime* runtime = quire_runtime_create(NULL, &error);
  check(runtime != NULL, "runtime", error);
  quire_model_options* of_model = quire_model_options_create(NULL);
  quire_model_options_set_path(of_model, argv[1], strlen(argv[1]), NULL);
  quire_model* model = quire_model_load(runtime, of_model, QUIRE_WAIT_FOREVER, NULL, &error);
  check(model != NULL, "model", error);
  quire_cache_options* of_cache = quire_cache_options_create(NULL);
  quire_cache_options_set_page_tokens(of_cache, 16, NULL);
  quire_cache_options_set_max_tokens(of_cache, 512, NULL);
  quire_cache_options_set_prefix_directory(of_cache, argv[2], strlen(argv[2]), NULL);
  quire_cache* cache = quire_cache_create(model, of_cache, &error);
  check(cache != NULL, "cache", error);
  for (int i = 3; i < argc; ++i) generate(cache, argv[i]);
  quire_stats* stats = quire_cache_stats(cache, &error);
  check(stats != NULL, "stats", error);
  printf("refused %" PRId64 "\n", quire_stats_prefix_files_refused(stats, NULL));
  quire_stats_free(stats, NULL);
  check(quire_cache_close(cache, QUIRE_WAIT_FOREVER, NULL, &error) == 1, "close", error);
  quire_cache_free(cache, NULL);
  quire_model_free(model, NULL);
  quire_runtime_free(runtime, NULL);
  quire_model_options_free(of_model, NULL);
  quire_cache_options_free(of_cache, NULL);
  return 0;
}

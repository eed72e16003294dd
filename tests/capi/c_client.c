/*
 * A whole client in C99: load, generate, print, free. The tests run it with the directory of the tiny model.
 * Exits with 0 if everything worked.
 */
#include <stdio.h>
#include <string.h>

#include <quire/quire.h>

static int fail(const char* what, quire_error* error) {
  fprintf(stderr, "%s: %s (%s)\n", what, quire_error_message(error, NULL),
          quire_error_code_name(quire_error_code(error)));
  quire_error_free(error);
  return 1;
}

static int print_events(quire_job* job) {
  quire_error* error = NULL;
  quire_event* event = NULL;
  while (quire_job_poll(job, QUIRE_WAIT_FOREVER, NULL, &event, &error) == 1) {
    size_t length = 0;
    const char* text = quire_event_text(event, &length, NULL);
    fwrite(text, 1, length, stdout);
    quire_event_free(event, NULL);
  }
  return error == NULL ? 0 : fail("poll", error);
}

static int generate(quire_cache* cache, const char* prompt) {
  quire_error* error = NULL;
  int result;
  quire_job* job = NULL;
  quire_job_request* request = quire_job_request_create(&error);
  if (request == NULL) return fail("request", error);
  quire_job_request_set_prompt_text(request, prompt, strlen(prompt), NULL);
  quire_job_request_set_max_new_tokens(request, 16, NULL);
  quire_job_request_set_temperature(request, 0.0, NULL);
  job = quire_job_submit(cache, request, &error);
  quire_job_request_free(request, NULL);
  if (job == NULL) return fail("submit", error);
  result = print_events(job);
  if (result == 0 && quire_job_new_tokens(job, NULL) < 1) result = 1;
  quire_job_free(job, NULL);
  return result;
}

int main(int argc, char** argv) {
  quire_error* error = NULL;
  quire_runtime* runtime = NULL;
  quire_model_options* options = NULL;
  quire_model* model = NULL;
  quire_cache* cache = NULL;
  int result;
  if (argc != 3) return 2;
  if (quire_abi_check(QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR, &error) == 0) return fail("abi", error);
  runtime = quire_runtime_create(NULL, &error);
  if (runtime == NULL) return fail("runtime", error);
  options = quire_model_options_create(NULL);
  quire_model_options_set_path(options, argv[1], strlen(argv[1]), NULL);
  model = quire_model_load(runtime, options, QUIRE_WAIT_FOREVER, NULL, &error);
  quire_model_options_free(options, NULL);
  if (model == NULL) return fail("load", error);
  cache = quire_cache_create(model, NULL, &error);
  if (cache == NULL) return fail("cache", error);
  result = generate(cache, argv[2]);
  /* In any order. */
  quire_runtime_free(runtime, NULL);
  quire_model_free(model, NULL);
  quire_cache_free(cache, NULL);
  return result;
}

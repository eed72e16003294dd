/*
 * The C interface on the embedded model, as a user writes it: streams greedy text, cancels a second job,
 * reads an error, and frees in the wrong order. Arguments: the model, a file with the prompt, a file with the
 * expected text.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quire/quire.h>

#define MAX_TEXT_BYTES 8192

static void fail(const char* what, const char* detail) {
  fprintf(stderr, "%s: %s\n", what, detail);
  exit(1);
}

/* Exits with the message if there is an error. */
static void check(quire_error* error, const char* what) {
  if (error != NULL) fail(what, quire_error_message(error, NULL));
}

static size_t read_file(const char* path, char* text) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) fail("cannot open", path);
  size_t length = fread(text, 1, MAX_TEXT_BYTES - 1, file);
  fclose(file);
  text[length] = '\0';
  return length;
}

static quire_model* load(quire_runtime* runtime, const char* path, quire_error** error) {
  quire_model_options* options = quire_model_options_create(NULL);
  quire_model_options_set_path(options, path, strlen(path), NULL);
  quire_model* model = quire_model_load(runtime, options, QUIRE_WAIT_FOREVER, NULL, error);
  quire_model_options_free(options, NULL);
  return model;
}

static quire_job* submit(quire_cache* cache, const char* prompt, int32_t max_new_tokens) {
  quire_error* error = NULL;
  quire_job_request* request = quire_job_request_create(&error);
  check(error, "quire_job_request_create");
  quire_job_request_set_prompt_text(request, prompt, strlen(prompt), NULL);
  quire_job_request_set_max_new_tokens(request, max_new_tokens, NULL);
  quire_job_request_set_temperature(request, 0.0, NULL);
  quire_job* job = quire_job_submit(cache, request, &error);
  check(error, "quire_job_submit");
  quire_job_request_free(request, NULL);
  return job;
}

/* Takes all events of a job and returns its finish reason. */
static int32_t drain(quire_job* job, char* text) {
  quire_error* error = NULL;
  quire_event* event = NULL;
  size_t used = 0;
  while (quire_job_poll(job, QUIRE_WAIT_FOREVER, NULL, &event, &error) == 1) {
    size_t length = 0;
    const char* piece = quire_event_text(event, &length, NULL);
    if (used + length >= MAX_TEXT_BYTES) fail("too much text", piece);
    memcpy(text + used, piece, length);
    used += length;
    quire_event_free(event, NULL);
  }
  check(error, "quire_job_poll");
  text[used] = '\0';
  return quire_job_finish_reason(job, NULL);
}

int main(int argc, char** argv) {
  static char prompt[MAX_TEXT_BYTES], expected[MAX_TEXT_BYTES], text[MAX_TEXT_BYTES];
  if (argc != 4) fail("usage", "story MODEL PROMPT EXPECTED");
  read_file(argv[2], prompt);
  read_file(argv[3], expected);

  quire_error* error = NULL;
  if (!quire_abi_check(QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR, &error)) check(error, "quire_abi_check");
  quire_runtime* runtime = quire_runtime_create(NULL, &error);
  check(error, "quire_runtime_create");
  quire_model* model = load(runtime, argv[1], &error);
  check(error, "quire_model_load");
  quire_cache* cache = quire_cache_create(model, NULL, &error);
  check(error, "quire_cache_create");

  quire_job* second = submit(cache, "Once upon a time", 1000);
  quire_job* job = submit(cache, prompt, 48);
  quire_job_cancel(second, NULL);
  if (drain(job, text) != QUIRE_FINISH_LENGTH) fail("finish reason", "is not the length");
  if (strcmp(text, expected) != 0) fail("another text", text);
  printf("%s\n", text);
  if (drain(second, text) != QUIRE_FINISH_CANCELLED) fail("the second job", "was not cancelled");

  if (load(runtime, "/no/such/model", &error) != NULL || quire_error_code(error) != QUIRE_ERROR_NOT_FOUND) {
    fail("/no/such/model", "was not refused as not found");
  }
  if (strstr(quire_error_message(error, NULL), "/no/such/model") == NULL) {
    fail("the message does not name the path", quire_error_message(error, NULL));
  }
  quire_error_free(error);

  quire_runtime_free(runtime, NULL);
  quire_model_free(model, NULL);
  quire_cache_free(cache, NULL);
  quire_job_free(job, NULL);
  quire_job_free(second, NULL);
  if (quire_job_free(job, &error) || quire_error_code(error) != QUIRE_ERROR_BAD_HANDLE) {
    fail("a second free", "was not refused");
  }
  quire_error_free(error);
  return 0;
}

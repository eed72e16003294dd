/* Common parts of the examples: a model with its cache, a request of a conversation, and failures. */
#ifndef MODEL_H
#define MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quire/quire.h>

typedef struct {
  quire_runtime* runtime;
  quire_model* model;
  quire_cache* cache;
} opened;

/* Ends the program with the message of the error, if there is one. */
static inline void check(quire_error* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\n", quire_error_message(error, NULL));
  quire_error_free(error);
  exit(1);
}

/* Each call fails cleanly if the call before it failed, so only the last one is checked. */
static inline opened open_model(const char* path) {
  quire_error* error = NULL;
  opened all = {quire_runtime_create(NULL, NULL), NULL, NULL};
  quire_model_options* options = quire_model_options_create(NULL);
  quire_model_options_set_path(options, path, strlen(path), NULL);
  all.model = quire_model_load(all.runtime, options, QUIRE_WAIT_FOREVER, NULL, &error);
  check(error);
  all.cache = quire_cache_create(all.model, NULL, &error);
  check(error);
  quire_model_options_free(options, NULL);
  return all;
}

/* Handles are freed in any order; the jobs of the cache have ended. */
static inline void close_model(const opened* all) {
  quire_cache_free(all->cache, NULL);
  quire_model_free(all->model, NULL);
  quire_runtime_free(all->runtime, NULL);
}

/* Returns a request with the sampling that the model's authors recommend, if they recommend any. */
static inline quire_job_request* request_of(const opened* all, const char* messages, int32_t max_new_tokens) {
  quire_error* error = NULL;
  quire_job_request* request = quire_job_request_create(NULL);
  quire_job_request_set_sampling_of_model(request, all->model, NULL);
  quire_job_request_set_max_new_tokens(request, max_new_tokens, NULL);
  quire_job_request_add_messages(request, messages, strlen(messages), &error);
  check(error);
  return request;
}

static inline quire_job* submit(const opened* all, quire_job_request* request) {
  quire_error* error = NULL;
  quire_job* job = quire_job_submit(all->cache, request, &error);
  check(error);
  return job;
}

#endif

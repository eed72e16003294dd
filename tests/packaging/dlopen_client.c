/*
 * Opens the library at run time, generates the reference text, closes all handles, and unloads the library.
 * Arguments: the library, the model, a file with the prompt, a file with the expected text.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quire/quire.h>

#define MAX_TEXT_BYTES 8192

static void* library;

static void fail(const char* what, const char* detail) {
  fprintf(stderr, "%s: %s\n", what, detail);
  exit(1);
}

/* Finds a function by its name, with the type that the header declares. */
#define FIND(name)                                           \
  __typeof__(name)* p_##name;                                \
  do {                                                       \
    *(void**)&p_##name = dlsym(library, #name);              \
    if (p_##name == NULL) fail("missing in library", #name); \
  } while (0)

static size_t read_file(const char* path, char* text) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) fail("cannot open", path);
  size_t length = fread(text, 1, MAX_TEXT_BYTES - 1, file);
  fclose(file);
  text[length] = '\0';
  return length;
}

static void generate(const char* model_path, const char* prompt, char* text) {
  FIND(quire_runtime_create);
  FIND(quire_runtime_free);
  FIND(quire_model_options_create);
  FIND(quire_model_options_set_path);
  FIND(quire_model_options_free);
  FIND(quire_model_load);
  FIND(quire_model_free);
  FIND(quire_cache_create);
  FIND(quire_cache_free);
  FIND(quire_job_request_create);
  FIND(quire_job_request_set_prompt_text);
  FIND(quire_job_request_set_max_new_tokens);
  FIND(quire_job_request_set_temperature);
  FIND(quire_job_request_free);
  FIND(quire_job_submit);
  FIND(quire_job_poll);
  FIND(quire_job_free);
  FIND(quire_event_text);
  FIND(quire_event_free);
  quire_runtime* runtime = p_quire_runtime_create(NULL, NULL);
  quire_model_options* options = p_quire_model_options_create(NULL);
  p_quire_model_options_set_path(options, model_path, strlen(model_path), NULL);
  quire_model* model = p_quire_model_load(runtime, options, QUIRE_WAIT_FOREVER, NULL, NULL);
  quire_cache* cache = p_quire_cache_create(model, NULL, NULL);
  quire_job_request* request = p_quire_job_request_create(NULL);
  p_quire_job_request_set_prompt_text(request, prompt, strlen(prompt), NULL);
  p_quire_job_request_set_max_new_tokens(request, 48, NULL);
  p_quire_job_request_set_temperature(request, 0.0, NULL);
  quire_job* job = p_quire_job_submit(cache, request, NULL);
  if (job == NULL) fail("cannot generate with", model_path);
  size_t used = 0;
  quire_event* event = NULL;
  while (p_quire_job_poll(job, QUIRE_WAIT_FOREVER, NULL, &event, NULL) == 1) {
    size_t length = 0;
    const char* piece = p_quire_event_text(event, &length, NULL);
    if (used + length >= MAX_TEXT_BYTES) fail("too much text", piece);
    memcpy(text + used, piece, length);
    used += length;
    p_quire_event_free(event, NULL);
  }
  text[used] = '\0';
  p_quire_job_free(job, NULL);
  p_quire_job_request_free(request, NULL);
  p_quire_cache_free(cache, NULL);
  p_quire_model_options_free(options, NULL);
  p_quire_model_free(model, NULL);
  p_quire_runtime_free(runtime, NULL);
}

int main(int argc, char** argv) {
  static char prompt[MAX_TEXT_BYTES], expected[MAX_TEXT_BYTES], text[MAX_TEXT_BYTES];
  if (argc != 5) fail("usage", "dlopen_client LIBRARY MODEL PROMPT EXPECTED");
  read_file(argv[3], prompt);
  read_file(argv[4], expected);
  for (int round = 0; round < 2; ++round) {
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) fail("dlopen", dlerror());
    generate(argv[2], prompt, text);
    if (strcmp(text, expected) != 0) fail("another text", text);
    if (dlclose(library) != 0) fail("dlclose", dlerror());
  }
  printf("%s\n", text);
  return 0;
}

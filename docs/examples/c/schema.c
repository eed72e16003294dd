/* Lets the model answer with JSON of a schema. The argument is the directory of a model. */
#include "model.h"

static const char kQuestion[] = "{\"role\": \"user\", \"content\": \"Who was the king, and when?\"}";
static const char kSchema[] =
    "{\"type\": \"object\", \"required\": [\"name\", \"year\"], \"properties\": {"
    "\"name\": {\"type\": \"string\", \"maxLength\": 30},"
    "\"year\": {\"type\": \"integer\", \"minimum\": 1000, \"maximum\": 2100}}}";

int main(int argc, char** argv) {
  quire_error* error = NULL;
  opened all = open_model(argc > 1 ? argv[1] : "");
  quire_job_request* request = request_of(&all, kQuestion, 200);
  quire_constraint* constraint =
      quire_constraint_create(all.model, QUIRE_CONSTRAINT_JSON_SCHEMA, kSchema, strlen(kSchema), &error);
  check(error);
  quire_job_request_set_constraint(request, constraint, NULL);
  quire_job* job = submit(&all, request);
  quire_event* event;
  while (quire_job_poll(job, QUIRE_WAIT_FOREVER, NULL, &event, NULL) == 1) {
    printf("%s", quire_event_text(event, NULL, NULL));
    quire_event_free(event, NULL);
  }
  printf("\n");
  quire_job_request_free(request, NULL);
  quire_constraint_free(constraint, NULL);
  quire_job_free(job, NULL);
  close_model(&all);
  return 0;
}

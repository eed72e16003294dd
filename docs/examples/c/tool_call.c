/* Lets the model call a tool, whose call matches its schema. The argument is the directory of a model. */
#include "model.h"

#define TOOLS                                                                                           \
  "[{\"type\": \"function\", \"function\": {\"name\": \"temperature\", \"parameters\": "                \
  "{\"type\": \"object\", \"properties\": {\"city\": {\"enum\": [\"Oslo\", \"Rome\"]}}, \"required\": " \
  "[\"city\"]}}}]"

static const char kQuestion[] = "{\"role\": \"user\", \"content\": \"How warm is it in Rome?\"}";
static const char kRules[] = "{\"dialect\": \"hermes\", \"reasoning\": \"off\", \"tools\": " TOOLS
                             ", \"tool_choice\": \"required\", \"parallel_tool_calls\": false}";

int main(int argc, char** argv) {
  quire_error* error = NULL;
  opened all = open_model(argc > 1 ? argv[1] : "");
  quire_job_request* request = request_of(&all, kQuestion, 100);
  quire_constraint* rules = quire_response_constraint_create(all.model, kRules, strlen(kRules), &error);
  check(error);
  quire_job_request_set_tools(request, TOOLS, strlen(TOOLS), NULL);
  quire_job_request_set_response_dialect(request, "hermes", strlen("hermes"), NULL);
  quire_job_request_set_reasoning(request, QUIRE_REASONING_OFF, NULL);
  quire_job_request_set_constraint(request, rules, NULL);
  quire_job* job = submit(&all, request);
  quire_event* event;
  while (quire_job_poll(job, QUIRE_WAIT_FOREVER, NULL, &event, NULL) == 1) {
    int32_t kind = quire_event_response_kind(event, NULL);
    if (kind == QUIRE_RESPONSE_CALL_BEGIN) printf("%s ", quire_event_call_name(event, NULL, NULL));
    if (kind == QUIRE_RESPONSE_ARGUMENTS) printf("%s", quire_event_response_text(event, NULL, NULL));
    quire_event_free(event, NULL);
  }
  printf("\n"); /* here the program runs its tool, and adds the call and its result to the messages */
  quire_job_request_free(request, NULL);
  quire_constraint_free(rules, NULL);
  quire_job_free(job, NULL);
  close_model(&all);
  return 0;
}

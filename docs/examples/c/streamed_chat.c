/* Prints an answer while it is generated. The argument is the directory of a model. */
#include "model.h"

static const char kMessages[] =
    "[{\"role\": \"system\", \"content\": \"Answer in one sentence.\"},"
    " {\"role\": \"user\", \"content\": \"Who was the king?\"}]";

int main(int argc, char** argv) {
  opened all = open_model(argc > 1 ? argv[1] : "");
  quire_job_request* request = request_of(&all, kMessages, 60);
  quire_job* job = submit(&all, request);
  quire_event* event;
  while (quire_job_poll(job, QUIRE_WAIT_FOREVER, NULL, &event, NULL) == 1) {
    size_t length = 0;
    const char* text = quire_event_text(event, &length, NULL);
    fwrite(text, 1, length, stdout);
    fflush(stdout);
    quire_event_free(event, NULL);
  }
  printf("\n%d tokens\n", (int)quire_job_new_tokens(job, NULL));
  quire_job_request_free(request, NULL);
  quire_job_free(job, NULL);
  close_model(&all);
  return 0;
}

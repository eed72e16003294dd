/* Ends an answer before it is complete. The argument is the directory of a model. */
#include "model.h"

static const char kQuestion[] = "{\"role\": \"user\", \"content\": \"Tell a long story.\"}";

int main(int argc, char** argv) {
  opened all = open_model(argc > 1 ? argv[1] : "");
  quire_job_request* request = request_of(&all, kQuestion, 1000);
  quire_job_request_set_ignore_eos(request, 1, NULL);
  quire_job* job = submit(&all, request);
  int64_t tokens = 0;
  int32_t finish = QUIRE_FINISH_NONE;
  quire_event* event;
  /* The events go on until the last one, which reports the end. */
  while (quire_job_poll(job, QUIRE_WAIT_FOREVER, NULL, &event, NULL) == 1) {
    tokens += quire_event_tokens(event, NULL, 0, NULL);
    if (tokens >= 20) quire_job_cancel(job, NULL); /* any thread may call it, any number of times */
    finish = quire_event_finish_reason(event, NULL);
    quire_event_free(event, NULL);
  }
  printf("%s after %d tokens\n", finish == QUIRE_FINISH_CANCELLED ? "cancelled" : "complete", (int)tokens);
  quire_job_request_free(request, NULL);
  quire_job_free(job, NULL);
  close_model(&all);
  return 0;
}

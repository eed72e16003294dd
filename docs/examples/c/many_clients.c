/* Serves many clients from one thread: one queue has the events of all jobs, whose tokens are computed
 * together. The argument is the directory of a model. */
#include "model.h"

#define NUM_CLIENTS 16

int main(int argc, char** argv) {
  opened all = open_model(argc > 1 ? argv[1] : "");
  quire_queue* queue = quire_queue_create(all.runtime, NULL);
  quire_job* jobs[NUM_CLIENTS];
  for (int client = 0; client < NUM_CLIENTS; ++client) {
    char question[128];
    snprintf(question, sizeof(question), "{\"role\": \"user\", \"content\": \"Tell me of king number %d.\"}",
             client);
    quire_job_request* request = request_of(&all, question, 32);
    quire_job_request_set_queue(request, queue, NULL);
    quire_job_request_set_user_data(request, (uint64_t)client, NULL);
    jobs[client] = submit(&all, request);
    quire_job_request_free(request, NULL);
  }
  int64_t tokens = 0;
  quire_event* event;
  for (int left = NUM_CLIENTS;
       left > 0 && quire_queue_poll(queue, QUIRE_WAIT_FOREVER, NULL, &event, NULL) == 1;) {
    tokens += quire_event_tokens(event, NULL, 0, NULL);
    if (quire_event_finish_reason(event, NULL) != QUIRE_FINISH_NONE) {
      printf("client %d has its answer\n", (int)quire_event_user_data(event, NULL));
      --left;
    }
    quire_event_free(event, NULL);
  }
  printf("%d answers, %d tokens\n", NUM_CLIENTS, (int)tokens);
  for (int client = 0; client < NUM_CLIENTS; ++client) quire_job_free(jobs[client], NULL);
  quire_queue_free(queue, NULL);
  close_model(&all);
  return 0;
}

// Ends an answer before it is complete. The argument is the directory of a model.
#include "model.hpp"

int main(int argc, char** argv) {
  return run(argc, argv, [](const Opened& all) {
    const quire::Request request =
        request_of(all, R"({"role": "user", "content": "Tell a long story."})", 1000);
    quire::call(quire_job_request_set_ignore_eos, request, 1);
    const quire::Job job(quire::call(quire_job_submit, all.cache, request));
    size_t tokens = 0;
    int32_t finish = QUIRE_FINISH_NONE;
    // The events go on until the last one, which reports the end.
    while (const quire::Event event = quire::next(job)) {
      tokens += quire::values_of<int32_t>(quire_event_tokens, event).size();
      if (tokens >= 20) quire::call(quire_job_cancel, job);  // any thread may call it, any number of times
      finish = quire::call(quire_event_finish_reason, event);
    }
    std::cout << (finish == QUIRE_FINISH_CANCELLED ? "cancelled" : "complete") << " after " << tokens
              << " tokens\n";
  });
}

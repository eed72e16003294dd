// Prints an answer while it is generated. The argument is the directory of a model.
#include "model.hpp"

constexpr const char* kMessages = R"([{"role": "system", "content": "Answer in one sentence."},
                                      {"role": "user", "content": "Who was the king?"}])";

int main(int argc, char** argv) {
  return run(argc, argv, [](const Opened& all) {
    const quire::Job job(quire::call(quire_job_submit, all.cache, request_of(all, kMessages, 60)));
    while (const quire::Event event = quire::next(job)) {
      quire::throw_if_failed(event);
      std::cout << quire::text_of(quire_event_text, event) << std::flush;
    }
    std::cout << "\n" << quire::call(quire_job_new_tokens, job) << " tokens\n";
  });
}

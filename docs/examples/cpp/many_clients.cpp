// Serves many clients, each on a thread of its own; their tokens are computed together. The argument is the
// directory of a model.
#include <atomic>
#include <thread>
#include <vector>

#include "model.hpp"

constexpr int kNumClients = 16;

int main(int argc, char** argv) {
  return run(argc, argv, [](const Opened& all) {
    std::atomic<int64_t> tokens = 0;
    const auto serve = [&](int client) {
      try {
        const std::string question =
            R"({"role": "user", "content": "Tell me of king number )" + std::to_string(client) + "\"}";
        const quire::Job job(quire::call(quire_job_submit, all.cache, request_of(all, question, 32)));
        while (const quire::Event event = quire::next(job)) quire::throw_if_failed(event);
        tokens += quire::call(quire_job_new_tokens, job);
      } catch (const quire::Error& error) {
        std::cerr << "client " << client << ": " << error.what() << "\n";
      }
    };
    std::vector<std::thread> clients;
    for (int client = 0; client < kNumClients; ++client) clients.emplace_back(serve, client);
    for (std::thread& client : clients) client.join();
    std::cout << kNumClients << " answers, " << tokens << " tokens\n";
  });
}

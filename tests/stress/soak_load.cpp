#include "tests/stress/soak_load.h"

#include <algorithm>

namespace quire::testing {
namespace {

const char* const kOpenings[] = {"Once upon a time there was a",
                                 "The captain looked at the sea and",
                                 "\"I do not believe you,\" said",
                                 "It was the best of times, it was",
                                 "In the morning the rain had stopped. The",
                                 "She opened the letter and read:",
                                 "There was no moon that night, and",
                                 "He had never seen so many people in one place"};

// Returns a long text with which half of the prompts begin, so that pages are shared, copied and evicted.
std::string shared_beginning() {
  std::string text;
  for (int i = 0; i < 12; ++i)
    text += "The old house stood at the end of the lane, and nobody had lived in it for years. ";
  return text;
}

Collected collect_some(quire_job* job, int num_events) {
  Collected collected;
  for (int i = 0; i < num_events && collected.num_last_events == 0; ++i) {
    const OwnedEvent event(next_event(job, QUIRE_WAIT_FOREVER, nullptr));
    if (!event) break;
    add_event(collected, event.get());
  }
  return collected;
}

void append(Collected& collected, const Collected& rest) {
  collected.tokens.insert(collected.tokens.end(), rest.tokens.begin(), rest.tokens.end());
  collected.text += rest.text;
  collected.num_last_events += rest.num_last_events;
  collected.finish_reason = rest.finish_reason;
  collected.error_code = rest.error_code;
}

}  // namespace

SoakLoad::SoakLoad(quire_runtime* runtime, quire_model* model, quire_cache* cache, int32_t poison)
    : runtime_(runtime), model_(model), cache_(cache), poison_(poison) {
  const std::string beginning = shared_beginning();
  for (const char* const opening : kOpenings) {
    prompts_.emplace_back(opening);
    prompts_.push_back(beginning + opening);
  }
  Random random(7);
  for (int32_t i = 0; i < static_cast<int32_t>(prompts_.size()); ++i) {
    for (uint64_t seed = 0; seed < 3; ++seed) tasks_.push_back({i, seed, 4 + below(random, 44), {}});
  }
  for (Task& task : tasks_) {
    const OwnedJob job = submit(request_of(task).get());
    task.answer = collect(job.get()).tokens;
    EXPECT_EQ(quire_job_error_code(job.get(), nullptr), QUIRE_ERROR_OK);
  }
}

// Seed 0 is greedy.
OwnedRequest SoakLoad::request_of(const Task& task) const {
  const std::string& prompt = prompts_[static_cast<size_t>(task.prompt_idx)];
  OwnedRequest request = make_request(prompt, task.max_new_tokens);
  if (task.seed != 0) {
    quire_job_request_set_temperature(request.get(), 0.9, nullptr);
    quire_job_request_set_top_p(request.get(), 0.95, nullptr);
    quire_job_request_set_repetition_penalty(request.get(), 1.1, nullptr);
    quire_job_request_set_seed(request.get(), task.seed, nullptr);
  }
  quire_job_request_set_banned_tokens(request.get(), &poison_, 1, nullptr);
  return request;
}

// Returns the same request with random settings that change no token.
OwnedRequest SoakLoad::random_settings(Random& random, const Task& task) const {
  OwnedRequest request = request_of(task);
  const std::string name(1, static_cast<char>('a' + below(random, 3)));
  quire_job_request_set_namespace(request.get(), name.data(), name.size(), nullptr);
  quire_job_request_set_priority(request.get(), below(random, 3), nullptr);
  quire_job_request_set_reserve_whole(request.get(), below(random, 4) == 0, nullptr);
  quire_job_request_set_reuse_prefix(request.get(), below(random, 6) != 0, nullptr);
  quire_job_request_set_publish_pages(request.get(), below(random, 6) != 0, nullptr);
  quire_job_request_set_progress_events(request.get(), below(random, 3) == 0, nullptr);
  quire_job_request_set_log_probs(request.get(), below(random, 4) == 0, nullptr);
  quire_job_request_set_event_policy(request.get(), below(random, 2), nullptr);
  quire_job_request_set_max_unread_events(request.get(), 2 + below(random, 6), nullptr);
  return request;
}

const SoakLoad::Task& SoakLoad::any_task(Random& random) const {
  return tasks_[static_cast<size_t>(below(random, static_cast<int32_t>(tasks_.size())))];
}

OwnedJob SoakLoad::submit(quire_job_request* request) const {
  Report report;
  OwnedJob job(quire_job_submit(cache_, request, report.out()));
  EXPECT_TRUE(job) << report.message();
  return job;
}

void SoakLoad::expect_answer(const Task& task, const Collected& collected) {
  EXPECT_EQ(collected.num_last_events, 1);
  EXPECT_EQ(collected.error_code, QUIRE_ERROR_OK);
  EXPECT_EQ(collected.tokens, task.answer) << "prompt " << task.prompt_idx << ", seed " << task.seed;
  ++counts_.checked;
}

void SoakLoad::expect_beginning(const Task& task, const Collected& collected) const {
  EXPECT_EQ(collected.num_last_events, 1);
  ASSERT_LE(collected.tokens.size(), task.answer.size());
  EXPECT_TRUE(std::equal(collected.tokens.begin(), collected.tokens.end(), task.answer.begin()))
      << "prompt " << task.prompt_idx << ", seed " << task.seed;
}

void SoakLoad::run_client(uint32_t seed, int num_jobs) {
  SCOPED_TRACE("client of seed " + std::to_string(seed));
  Random random(seed);
  for (int i = 0; i < num_jobs; ++i) {
    const int32_t kind = below(random, 100);
    if (kind < 23) {
      cancel(random);
    } else if (kind < 29) {
      abandon(random);
    } else if (kind < 35) {
      submit_invalid(random);
    } else if (kind < 38) {
      submit_poisoned(random);
    } else if (kind < 48) {
      disturb(random);
    } else if (kind < 52) {
      ask_through_queue(random);
    } else {
      ask(random);
    }
  }
}

void SoakLoad::ask(Random& random) {
  const Task& task = any_task(random);
  const OwnedJob job = submit(random_settings(random, task).get());
  expect_answer(task, collect(job.get()));
}

// Submits a few jobs at a time, with their events in one queue.
void SoakLoad::ask_through_queue(Random& random) {
  const OwnedQueue queue(quire_queue_create(runtime_, nullptr));
  EXPECT_GE(quire_queue_fd(queue.get(), nullptr), 0);
  std::vector<const Task*> tasks;
  std::vector<OwnedJob> jobs;
  for (uint64_t i = 0; i < 4; ++i) {
    tasks.push_back(&any_task(random));
    const OwnedRequest request = random_settings(random, *tasks.back());
    quire_job_request_set_queue(request.get(), queue.get(), nullptr);
    quire_job_request_set_user_data(request.get(), i, nullptr);
    jobs.push_back(submit(request.get()));
  }
  std::vector<Collected> collected(jobs.size());
  for (size_t num_over = 0; num_over < jobs.size();) {
    const OwnedEvent event(next_event(queue.get(), QUIRE_WAIT_FOREVER, nullptr));
    ASSERT_TRUE(event);
    Collected& of = collected[quire_event_user_data(event.get(), nullptr)];
    add_event(of, event.get());
    num_over += static_cast<size_t>(of.num_last_events);  // the last event of the job
  }
  for (size_t i = 0; i < jobs.size(); ++i) expect_answer(*tasks[i], collected[i]);
}

void SoakLoad::cancel(Random& random) {
  const Task& task = any_task(random);
  const OwnedJob job = submit(random_settings(random, task).get());
  Collected collected = collect_some(job.get(), below(random, 12));
  EXPECT_EQ(quire_job_cancel(job.get(), nullptr), 1);
  append(collected, collect(job.get()));
  expect_beginning(task, collected);
  ++counts_.cancelled;
}

// Stops reading: the handle is freed, at once, in the middle, or after the job has ended.
void SoakLoad::abandon(Random& random) {
  const OwnedRequest request = random_settings(random, any_task(random));
  quire_job_request_set_event_policy(request.get(), QUIRE_EVENTS_COALESCE, nullptr);
  const OwnedJob job = submit(request.get());
  const int32_t when = below(random, 3);
  if (when == 1) collect_some(job.get(), 3);
  if (when == 2) quire_job_wait(job.get(), QUIRE_WAIT_FOREVER, nullptr, nullptr);
  ++counts_.abandoned;
}

void SoakLoad::submit_invalid(Random& random) {
  const OwnedRequest request = random_settings(random, any_task(random));
  const int32_t no_token = below(random, 2) == 0 ? -1 : quire_model_vocab_size(model_, nullptr);
  const std::string broken = "half a character: \xe2\x82";
  const std::string endless(1 << 16, 'a');
  int32_t expected = QUIRE_ERROR_INVALID_ARGUMENT;
  switch (below(random, 5)) {
    case 0:
      quire_job_request_set_prompt_tokens(request.get(), &no_token, 1, nullptr);
      break;
    case 1:
      quire_job_request_set_prompt_text(request.get(), broken.data(), broken.size(), nullptr);
      expected = QUIRE_ERROR_ENCODING;
      break;
    case 2:
      quire_job_request_set_prompt_text(request.get(), endless.data(), endless.size(), nullptr);
      expected = QUIRE_ERROR_TOO_LARGE;
      break;
    case 3:
      quire_job_request_set_stop_tokens(request.get(), &no_token, 1, nullptr);
      break;
    default:
      quire_job_request_set_min_new_tokens(request.get(), 1000, nullptr);
      break;
  }
  Report report;
  EXPECT_EQ(quire_job_submit(cache_, request.get(), report.out()), nullptr);
  EXPECT_EQ(report.code(), expected) << report.message();
  ++counts_.invalid;
}

// Submits a prompt with the poison token, or one whose output reaches it.
void SoakLoad::submit_poisoned(Random& random) {
  const OwnedRequest request = random_settings(random, any_task(random));
  std::vector<int32_t> all(static_cast<size_t>(quire_cache_vocab_size(cache_, nullptr)));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  switch (below(random, 2)) {
    case 0: {
      std::vector<int32_t> prompt(static_cast<size_t>(1 + below(random, 100)), 70);
      prompt[static_cast<size_t>(below(random, static_cast<int32_t>(prompt.size())))] = poison_;
      quire_job_request_set_prompt_tokens(request.get(), prompt.data(), prompt.size(), nullptr);
      break;
    }
    default:
      all.erase(all.begin() + poison_);
      quire_job_request_set_banned_tokens(request.get(), all.data(), all.size(), nullptr);
      break;
  }
  const OwnedJob job = submit(request.get());
  const Collected collected = collect(job.get());
  EXPECT_EQ(collected.last_type, QUIRE_EVENT_ERROR);
  EXPECT_EQ(collected.error_code, QUIRE_ERROR_NUMERIC);
  ++counts_.poisoned;
}

void SoakLoad::disturb(Random& random) {
  const Task& task = any_task(random);
  const OwnedJob job = submit(random_settings(random, task).get());
  Collected collected = collect_some(job.get(), 1 + below(random, 6));
  const bool takes_back = below(random, 4) == 0;
  if (takes_back) {
    quire_job_rewind(job.get(), below(random, 4), nullptr);
  } else {
    quire_job_pause(job.get(), nullptr);
    quire_job_set_priority(job.get(), below(random, 5), nullptr);
    quire_job_resume(job.get(), nullptr);
  }
  OwnedJob child;
  if (below(random, 2) == 0) {
    const OwnedRequest as_parent(quire_job_request_create(nullptr));
    quire_job_request_set_max_new_tokens(as_parent.get(), task.max_new_tokens, nullptr);
    child = OwnedJob(quire_job_fork(job.get(), as_parent.get(), nullptr));
    EXPECT_TRUE(child);
  }
  append(collected, collect(job.get()));
  EXPECT_EQ(collected.num_last_events, 1);
  if (!takes_back) {
    EXPECT_EQ(collected.tokens, task.answer);
  }
  if (child) {
    EXPECT_EQ(collect(child.get()).num_last_events, 1);
  }
  ++counts_.disturbed;
}

}  // namespace quire::testing

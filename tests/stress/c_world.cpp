#include "tests/stress/c_world.h"

#include "capi/src/handle_table.h"

namespace quire::testing {
namespace {

constexpr int32_t kNewTokens = 12;
constexpr int64_t kPatience = 60'000'000'000;

int32_t bit(int32_t code) {
  return 1 << code;
}

int32_t codes_of(uint32_t effects) {
  int32_t codes = bit(QUIRE_ERROR_OK);
  if ((effects & kFrees) != 0) codes |= bit(QUIRE_ERROR_BAD_HANDLE);
  if ((effects & kCloses) != 0) codes |= bit(QUIRE_ERROR_CLOSED);
  if ((effects & kCancels) != 0) codes |= bit(QUIRE_ERROR_CANCELLED);
  if ((effects & kMisses) != 0) codes |= bit(QUIRE_ERROR_NOT_FOUND);
  if ((effects & kEndsAnswers) != 0) codes |= bit(QUIRE_ERROR_INVALID_ARGUMENT);
  if ((effects & kHasNoNetwork) != 0) codes |= bit(QUIRE_ERROR_UNSUPPORTED);
  return codes;
}

// Returns options with 64 pages of 4 tokens, so that jobs compete; 4 jobs at once.
quire_cache_options* make_cache_options() {
  quire_cache_options* const options = quire_cache_options_create(nullptr);
  quire_cache_options_set_page_tokens(options, 4, nullptr);
  quire_cache_options_set_max_tokens(options, 256, nullptr);
  quire_cache_options_set_max_seq_len(options, 128, nullptr);
  quire_cache_options_set_max_batch_size(options, 4, nullptr);
  quire_cache_options_set_max_chunk_tokens(options, 16, nullptr);
  return options;
}

quire_model_options* make_model_options() {
  quire_model_options* const options = quire_model_options_create(nullptr);
  const std::string& path = tiny_model_path();
  quire_model_options_set_path(options, path.data(), path.size(), nullptr);
  quire_model_options_set_scope(options, QUIRE_MODEL_SCOPE_TOKENIZER, nullptr);
  return options;
}

quire_runtime_options* make_runtime_options() {
  quire_runtime_options* const options = quire_runtime_options_create(nullptr);
  quire_runtime_options_set_num_threads(options, 1, nullptr);
  return options;
}

// Returns an event whose job is gone.
quire_event* make_event(quire_cache* cache) {
  const OwnedJob job(quire_job_submit(cache, make_request("e", 1).get(), nullptr));
  return next_event(job.get(), QUIRE_WAIT_FOREVER, nullptr);
}

bool is_last(quire_event* event) {
  const int32_t type = quire_event_type(event, nullptr);
  return type == QUIRE_EVENT_FINISHED || type == QUIRE_EVENT_ERROR;
}

template <typename Handle>
void free_what_is_left(int32_t (*free_handle)(Handle*, quire_error**), Handle* handle, bool may_be_gone) {
  Report report;
  if (free_handle(handle, report.out()) == 1) return;
  EXPECT_TRUE(may_be_gone && report.code() == QUIRE_ERROR_BAD_HANDLE) << report.message();
}

}  // namespace

Roots::Roots() {
  const OwnedJob job(quire_job_submit(world.cache.get(), make_canary().get(), nullptr));
  canary = collect(job.get());
}

CWorld::CWorld(const Roots& roots, uint32_t the_effects)
    : effects(the_effects), allowed(codes_of(the_effects)) {
  if ((effects & kOwnRoots) != 0) {
    own_runtime = make_runtime();
    own_model = load_model(own_runtime.get());
    runtime = own_runtime.release();
    model = own_model.release();
  } else {
    runtime = roots.world.runtime.get();
    model = roots.world.model.get();
  }
  cancel = quire_cancel_create(nullptr);
  constraint = quire_constraint_create(model, QUIRE_CONSTRAINT_REGEX, "[a-z]*", 6, nullptr);
  matcher = quire_matcher_create(constraint, nullptr);
  chat = quire_chat_template_create("{{ messages }}", 14, nullptr);
  alias = quire_alias_create(runtime, "a", 1, nullptr);
  parser = quire_response_parser_create("hermes", 6, nullptr);
  quire_response_parser_feed(parser, kAnswer.data(), kAnswer.size(), nullptr);
  EXPECT_EQ(quire_response_parser_next(parser, nullptr), 1);
  runtime_options = make_runtime_options();
  model_options = make_model_options();
  cache_options = make_cache_options();
  request = make_request("abcdefghij", kNewTokens).release();
  queue = quire_queue_create(runtime, nullptr);
  event = make_event(roots.world.cache.get());
  quire_job_cancel(nullptr, &error);
  Report report;
  cache = quire_cache_create(model, cache_options, report.out());
  EXPECT_NE(cache, nullptr) << report.message();
  stats = quire_cache_stats(cache, nullptr);
  share_ = capi::Pinned(cache, "cache")->share;
  const OwnedRequest own = make_request("abcdefgh", kNewTokens);
  quire_job_request_set_queue(own.get(), queue, nullptr);
  quire_job_request_set_max_unread_events(own.get(), 4, nullptr);
  job = quire_job_submit(cache, own.get(), report.out());
  EXPECT_NE(job, nullptr) << report.message();
  job_id = quire_job_id(job, nullptr);
}

void CWorld::judge(const char* call, quire_error* written) const {
  const int32_t code = quire_error_code(written);
  EXPECT_NE(allowed & bit(code), 0) << call << ": " << quire_error_message(written, nullptr);
  quire_error_free(written);
}

void CWorld::note(quire_event* taken) {
  if (quire_event_job_id(taken, nullptr) == job_id && is_last(taken)) ++num_last_events;
}

// The job may be paused, finished, or freed.
void CWorld::finish_job() {
  Report report;
  quire_job_resume(job, report.out());
  const bool gone = report.code() == QUIRE_ERROR_BAD_HANDLE;
  while (const OwnedEvent taken{next_event(job, kPatience, nullptr)}) note(taken.get());
  EXPECT_TRUE(num_last_events == 1 || (gone && num_last_events == 0)) << num_last_events << " last events";
}

void CWorld::check_canary(const Roots& roots) {
  Report report;
  const OwnedJob canary(quire_job_submit(cache, Roots::make_canary().get(), report.out()));
  if (!canary) {
    EXPECT_NE(allowed & bit(report.code()), 0) << report.message();
    return;
  }
  const Collected said = collect(canary.get());
  EXPECT_EQ(said.tokens, roots.canary.tokens);
  EXPECT_EQ(said.text, roots.canary.text);
  EXPECT_EQ(said.num_last_events, 1);
}

// After the close every job has ended and every page is released.
void CWorld::check_figures() {
  if (quire_cache_close(cache, QUIRE_WAIT_FOREVER, nullptr, nullptr) != 1) return;  // the cache was freed
  const OwnedStats of(quire_cache_stats(cache, nullptr));
  EXPECT_EQ(quire_stats_pages_referenced(of.get(), nullptr), 0);
  EXPECT_EQ(quire_stats_jobs_running(of.get(), nullptr), 0);
  EXPECT_EQ(quire_stats_jobs_queued(of.get(), nullptr), 0);
  EXPECT_EQ(quire_stats_jobs_finished(of.get(), nullptr), quire_stats_jobs_submitted(of.get(), nullptr));
}

void CWorld::finish(const Roots& roots) {
  finish_job();
  check_canary(roots);
  check_figures();
  const bool freed = (effects & kFrees) != 0;
  free_what_is_left(quire_job_free, job, freed);
  free_what_is_left(quire_alias_free, alias, freed);
  free_what_is_left(quire_cache_free, cache, freed);
  EXPECT_TRUE(share_.expired()) << "the cache is still referenced";
  free_what_is_left(quire_stats_free, stats, freed);
  free_what_is_left(quire_event_free, event, freed);
  free_what_is_left(quire_queue_free, queue, freed);
  free_what_is_left(quire_job_request_free, request, freed);
  free_what_is_left(quire_cache_options_free, cache_options, freed);
  free_what_is_left(quire_model_options_free, model_options, freed);
  free_what_is_left(quire_runtime_options_free, runtime_options, freed);
  free_what_is_left(quire_cancel_free, cancel, freed);
  free_what_is_left(quire_constraint_free, constraint, freed);
  free_what_is_left(quire_matcher_free, matcher, freed);
  free_what_is_left(quire_chat_template_free, chat, freed);
  free_what_is_left(quire_response_parser_free, parser, freed);
  EXPECT_TRUE(quire_error_free(error) == 1 || freed);
  if ((effects & kOwnRoots) == 0) return;
  free_what_is_left(quire_model_free, model, freed);
  free_what_is_left(quire_runtime_free, runtime, freed);
}

}  // namespace quire::testing

#include "core/engine/engine.h"

#include <algorithm>
#include <utility>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/engine/events/event_queue.h"
#include "core/engine/events/page_followers.h"
#include "core/engine/events/skipping_stream.h"
#include "core/engine/jobs/namespace_quotas.h"
#include "core/engine/jobs/random_seed.h"
#include "core/engine/jobs/request_check.h"
#include "core/engine/loop/engine_thread.h"
#include "core/engine/metrics/engine_metrics.h"

namespace quire {

namespace {

void fill_lane(Lane& lane, TokenIds prompt, int32_t num_new_tokens) {
  lane.num_prompt_tokens = static_cast<int32_t>(prompt.size());
  lane.tokens = std::move(prompt);
  lane.tokens.reserve(lane.tokens.size() + static_cast<size_t>(num_new_tokens) + 1);
}

TextOutput make_text_output(const ModelParts& parts, const JobRequest& request) {
  const bool emit_special = request.emit_special_tokens || request.response != nullptr;
  std::unique_ptr<TextStream> stream = parts.codec->open(emit_special);
  if (request.healed_token >= 0) stream = without_text_of(std::move(stream), request.healed_token);
  TextOutput text(std::move(stream), request.stop_strings, request.banned_strings);
  if (request.response != nullptr) text.read_as(*request.response);
  return text;
}

// Moves the prompts into the lanes of the job and reserves memory for the new tokens.
void fill_lanes(JobRecord& record, const EngineThread& core) {
  JobRequest& request = record.request;
  Lane& lane = record.lane;
  const auto num_prompt_tokens = static_cast<int32_t>(request.prompt.size());
  record.result.prompt_tokens = num_prompt_tokens;
  const bool generates = request.kind == JobKind::generate;
  const JobSize size{num_prompt_tokens, static_cast<int32_t>(request.negative_prompt.size()),
                     generates ? request.max_new_tokens : 0};
  const int32_t num_new_tokens = new_tokens_within(core.max_seq_len(), size);
  record.max_tokens = num_prompt_tokens + num_new_tokens;
  fill_lane(lane, std::move(request.prompt), num_new_tokens);
  if (size.guide_tokens > 0)
    fill_lane(record.guide.emplace(&record), std::move(request.negative_prompt), num_new_tokens);
  if (generates) {
    record.sampler.reserve(static_cast<size_t>(record.max_tokens) + 1);
    record.sampler.append(lane.tokens);
    if (request.constraint != nullptr) record.matcher = request.constraint->start();
    record.first_banned_tokens = core.parts().rules.first_banned_tokens;
  }
}

// Allocates the results of a score or embed job.
void allocate_results(JobRecord& record, const EngineThread& core) {
  JobRequest& request = record.request;
  const TokenIds& tokens = record.lane.tokens;
  if (request.kind == JobKind::score) {
    request.reuse_prefix = false;  // a log probability needs the logits after every token
    record.output.scores.resize(tokens.size() - 1);
    if (request.want_raw_logits) {
      record.output.raw_logits.resize(tokens.size() * static_cast<size_t>(core.parts().num_tokens));
    }
  }
  if (request.kind == JobKind::embed) {
    // Mean pooling needs the hidden states of all tokens; the prefix cache has only keys and values.
    if (request.pooling == Pooling::mean) request.reuse_prefix = false;
    const auto columns = static_cast<size_t>(core.limits().hidden_size);
    record.pool.sum.resize(columns);
    record.step.pool.sum.resize(columns);
    record.step.embedding.resize(columns);
  }
}

// Opens the channel to the caller, and starts the clock of the job.
void open_channel(JobRecord& record, EngineThread& core) {
  JobRequest& request = record.request;
  EventStreamOptions events;
  events.clock = &core.runtime().clock();
  events.policy = request.slow_reader;
  events.max_unread = request.max_unread_events;
  events.queue = std::exchange(request.queue, nullptr);
  events.engine = core.queue().signal();
  const JobMark mark{request.tag, request.index, request.sampling.seed};
  record.channel = std::make_shared<JobChannel>(request.kind, mark, request.name_space, events);
  record.id = record.channel->id;
  record.submitted = core.runtime().clock().now();
  record.channel->progress.submitted = record.submitted;
  record.channel->progress.prompt_tokens = record.lane.num_prompt_tokens;
  const auto deadline = [&](Duration timeout) {
    return timeout == Duration{0} ? TimePoint::max() : deadline_after(record.submitted, timeout);
  };
  record.queue_deadline = deadline(request.queue_deadline);
  record.first_token_deadline = deadline(request.first_token_deadline);
  record.total_deadline = deadline(request.total_deadline);
}

// Creates everything that a job needs until its first step, on the caller's thread.
std::unique_ptr<JobRecord> make_record(EngineThread& core, JobRequest request) {
  const ModelParts& parts = core.parts();
  SamplerState sampler(request.sampling, parts.num_tokens);
  TextOutput text = make_text_output(parts, request);
  auto record = std::make_unique<JobRecord>(std::move(request), std::move(sampler), std::move(text));
  fill_lanes(*record, core);
  record->stop_tokens = record->request.stop_tokens;
  if (!record->request.ignore_end_tokens) {
    record->stop_tokens.insert(record->stop_tokens.end(), parts.end_tokens.begin(), parts.end_tokens.end());
  }
  allocate_results(*record, core);
  open_channel(*record, core);
  return record;
}

// Applies the rules of the model: refuses jobs that need logits of a model without a head, bans its tokens,
// and replaces Pooling::model by the pooling that it declares.
void apply_model(const ModelParts& parts, JobRequest& request) {
  if (!parts.rules.has_head && (request.kind == JobKind::generate || request.kind == JobKind::score)) {
    throw Error(ErrorCode::unsupported,
                "kind: the files of the model have no vocabulary matrix, so it computes embeddings alone")
        .at("kind");
  }
  if (request.kind == JobKind::generate) {
    TokenIds& banned = request.sampling.banned_tokens;
    banned.insert(banned.end(), parts.rules.banned_tokens.begin(), parts.rules.banned_tokens.end());
  }
  if (request.pooling != Pooling::model) return;
  if (request.kind == JobKind::embed && !parts.rules.unsupported_pooling.empty()) {
    throw Error(ErrorCode::unsupported,
                "pooling: the model declares one that is not supported ({}); set mean or last",
                parts.rules.unsupported_pooling)
        .at("pooling");
  }
  request.pooling = parts.rules.pooling;
}

RequestLimits request_limits(const EngineThread& core) {
  return {core.limits(),  core.parts().num_tokens, core.max_seq_len(),
          core.options(), core.parts().end_tokens, core.fastest_steps()};
}

}  // namespace

std::shared_ptr<Engine> Engine::create(std::shared_ptr<Runtime> runtime, EngineParts parts,
                                       const EngineOptions& options) {
  check_options(options, parts);
  auto core = std::make_shared<EngineThread>(runtime, std::move(parts), options);
  // ~Engine closes the thread if the rest throws
  std::shared_ptr<Engine> cache(new Engine(std::move(runtime), core));
  if (core->loop().is_elastic()) core->runtime().memory_reclaimers().add(core);
  if (options.start_thread) core->start();
  return cache;
}

Engine::Engine(std::shared_ptr<Runtime> runtime, std::shared_ptr<EngineThread> core)
    : runtime_(std::move(runtime)), thread_(std::move(core)) {}

Engine::~Engine() {
  close();
}

std::shared_ptr<Job> Engine::submit(JobRequest request) {
  if (request.random_seed) request.sampling.seed = draw_seed();
  apply_model(thread_->parts(), request);
  check_request(request, request_limits(*thread_));
  auto record = make_record(*thread_, std::move(request));
  auto job = std::make_shared<Job>(shared_from_this(), record->channel);
  thread_->queue().push(std::move(record));
  return job;
}

std::vector<std::shared_ptr<Job>> Engine::submit_many(const JobRequest& request, int32_t num_jobs) {
  if (num_jobs < 1 || num_jobs > thread_->options().max_queued_jobs) {
    throw Error(ErrorCode::invalid_argument, "num_jobs is {}, must be 1 to {}", num_jobs,
                thread_->options().max_queued_jobs)
        .at("num_jobs");
  }
  JobRequest resolved = request;
  apply_model(thread_->parts(), resolved);
  check_request(resolved, request_limits(*thread_));
  const uint64_t first_seed = request.random_seed ? draw_seed() : request.sampling.seed;
  std::vector<std::unique_ptr<JobRecord>> records;
  std::vector<std::shared_ptr<Job>> jobs;
  for (int32_t i = 0; i < num_jobs; ++i) {
    JobRequest one = resolved;
    one.sampling.seed = first_seed + static_cast<uint64_t>(i);
    one.tag += one.tag_step * static_cast<uint64_t>(i);
    one.index = i;
    records.push_back(make_record(*thread_, std::move(one)));
    jobs.push_back(std::make_shared<Job>(shared_from_this(), records.back()->channel));
  }
  thread_->queue().push(std::move(records));
  return jobs;
}

int32_t Engine::query_prefix(const TokenIds& prompt, const std::string& name_space, const Wait& wait) {
  return thread_->call<int32_t>(
      [prompt, name_space](LiveJobs& jobs) { return jobs.query_prefix(prompt, name_space); }, wait);
}

PinId Engine::pin_prefix(const TokenIds& prompt, const std::string& name_space, Duration time_to_live,
                         const Wait& wait) {
  return thread_->call<PinId>([prompt, name_space, time_to_live](
                                  LiveJobs& jobs) { return jobs.pin(prompt, name_space, time_to_live); },
                              wait);
}

void Engine::unpin(PinId pin) {
  thread_->post([pin](LiveJobs& jobs) { jobs.unpin(pin); });
}

void Engine::follow_pages(PageFollowing following) {
  thread_->post([following = std::move(following)](LiveJobs& jobs) { jobs.follow_pages(following); });
}

void Engine::change_quota(const std::string* name, const std::function<void(NamespaceQuota&)>& change) {
  NamespaceQuotas& quotas = *thread_->options().quotas;
  name == nullptr ? quotas.change_default(change) : quotas.change(*name, change);
  thread_->post([](LiveJobs& jobs) { jobs.take_new_quotas(); });
}

void Engine::set_device_weight(double weight) noexcept {
  thread_->loop().step_timing().device_turn().set_weight(weight);
}

CacheStats Engine::stats() const {
  return thread_->stats();
}

CacheMetrics Engine::metrics() const {
  return thread_->metrics();
}

std::string Engine::metrics_text(const std::string& label) const {
  return format_metrics(metrics(), label);
}

void Engine::log_close() const noexcept {
  const size_t num_live = thread_->queue().num_live();
  if (num_live > 0 && !thread_->closed()) {
    runtime_->log()(LogLevel::info, "a cache is closed with {} unfinished jobs", num_live);
  }
}

void Engine::close() noexcept {
  log_close();
  thread_->close();
}

WaitEnd Engine::close(const Wait& wait) {
  log_close();
  return thread_->close(wait);
}

void Engine::abandon() noexcept {
  thread_->abandon();
}

bool Engine::closed() const {
  return thread_->closed();
}

const ExecutorLimits& Engine::limits() const {
  return thread_->limits();
}

int32_t Engine::max_seq_len() const {
  return thread_->max_seq_len();
}

int32_t Engine::num_tokens() const {
  return thread_->parts().num_tokens;
}

}  // namespace quire

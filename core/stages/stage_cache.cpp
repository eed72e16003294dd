#include "core/stages/stage_cache.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "core/models/memory_plan.h"

namespace quire {

bool StageLayers::serves(const StageLayers& other) const {
  const BuildRequest& mine = request;
  const BuildRequest& wanted = other.request;
  return !mine.is_plan && mine.identity == wanted.identity && mine.first_layer == wanted.first_layer &&
         mine.end_layer == wanted.end_layer && mine.activations == wanted.activations;
}

uint64_t LayerRegistry::add(const std::shared_ptr<const StageLayers>& layers) {
  const MutexLock lock(mutex_);
  std::erase_if(layers_, [](const auto& entry) { return entry.second.expired(); });
  layers_.emplace(++last_, layers);
  return last_;
}

std::shared_ptr<const StageLayers> LayerRegistry::at(uint64_t id) const {
  const MutexLock lock(mutex_);
  const auto found = layers_.find(id);
  std::shared_ptr<const StageLayers> layers = found == layers_.end() ? nullptr : found->second.lock();
  if (layers != nullptr) return layers;
  throw Error(ErrorCode::not_found, "the stage has no layers of number {} any more", id);
}

namespace {

// Throws unless a host may ask for these sizes and the layers can store keys and values in these formats.
const TransformerExecutorOptions& checked(const Transformer& stage,
                                          const TransformerExecutorOptions& options) {
  require_cache_sizes(options);
  for (const LayerCacheSize& layer : stage.shape.caches) {
    const int32_t value_dim = layer.value_dim == 0 ? layer.head_dim : layer.value_dim;
    if (!kernels::holds_heads(options.kv.key_format, layer.head_dim) ||
        !kernels::holds_heads(options.kv.value_format, value_dim))
      throw Error(ErrorCode::invalid_argument, "kv_format: the heads of the layers do not fit into it");
  }
  return options;
}

}  // namespace

StageCache::StageCache(std::shared_ptr<const StageLayers> layers, const TransformerExecutorOptions& options,
                       StageMemory& memory)
    : layers_(std::move(layers)),
      options_(checked(*layers_->transformer, options)),
      memory_(memory.reserve(bytes_with(options.kv.least_pages), "the pages and activations of a cache")),
      executor_(layers_->transformer, options_, [this] { return current_->transformer; }),
      num_pages_(executor_.limits().guaranteed_pages()) {
  if (largest_message() > kMostMessageBytes) {
    throw Error(ErrorCode::invalid_argument,
                "a step of this cache needs messages of {} bytes; make max_chunk_tokens smaller",
                largest_message());
  }
  rows_.resize(static_cast<size_t>(options_.max_tokens) *
               static_cast<size_t>(executor_.limits().hidden_size));
}

// Returns the bytes of the cache while num_pages pages have memory; 0: all of them.
uint64_t StageCache::bytes_with(int32_t num_pages) const {
  TransformerExecutorOptions options = options_;
  const StateSlotRange slots = options.kv.state_slots();
  options.kv.least_pages = num_pages;
  if (slots.least_slots > 0) options.kv.least_state_slots = slots.slots_at(num_pages);
  const RemoteCacheBytes bytes = plan_inner_stage(*layers_->transformer, options);
  return bytes.kv + bytes.states + bytes.workspace;
}

uint64_t StageCache::largest_message() const {
  uint64_t stored = executor_.state_bytes();
  for (size_t table = 0; table <= executor_.limits().windows.size(); ++table)
    stored = std::max(stored, executor_.page_bytes(static_cast<int32_t>(table)));
  return largest_request(executor_.limits(), stored);
}

ExecutorAnswer StageCache::stored_bytes() const {
  ExecutorAnswer answer;
  for (size_t table = 0; table <= executor_.limits().windows.size(); ++table)
    answer.page_bytes.push_back(executor_.page_bytes(static_cast<int32_t>(table)));
  answer.state_bytes = executor_.state_bytes();
  return answer;
}

void StageCache::acquire_weights(std::shared_ptr<const StageLayers> layers) {
  if (!layers->serves(*layers_))
    throw Error(ErrorCode::invalid_argument, "these weights are not of the layers of the cache");
  current_ = std::move(layers);
  executor_.acquire_weights();
}

void StageCache::release_weights() {
  if (current_ == nullptr) return;
  executor_.release_weights();
  current_ = nullptr;
}

void StageCache::begin_link(const LinkRequest& request) {
  kernels::LinkId id;
  if (request.id.size() != sizeof id.bytes)
    throw Error(ErrorCode::format, "the name of a link has {} bytes", request.id.size());
  std::copy(request.id.begin(), request.id.end(), id.bytes);
  link_.reset();
  link_.emplace(executor_.last_stage().context, id, 1);
}

// Runs `transfer` with the link, and drops the link if that fails.
template <typename Transfer>
void StageCache::over_link(Transfer transfer) {
  if (!link_) throw Error(ErrorCode::format, "the cache has no link");
  try {
    transfer(*link_);
  } catch (const Error&) {
    link_.reset();
    throw;
  }
}

void StageCache::finish_link(const std::atomic<bool>& is_lost) {
  over_link([&](RowLink& link) { link.connect({is_lost, kLinkTime}); });
}

void StageCache::receive_rows(WireReader& message, const std::atomic<bool>& is_lost) {
  read_checked_batch(message);
  message.finish();
  over_link([&](RowLink& link) {
    link.receive(executor_.last_stage().memory.workspace().hidden, batch_.num_tokens(),
                 executor_.limits().hidden_size, is_lost);
  });
}

void StageCache::send_rows(const std::atomic<bool>& is_lost) {
  over_link([&](RowLink& link) {
    link.send(executor_.last_stage().memory.workspace().hidden, batch_.num_tokens(),
              executor_.limits().hidden_size, is_lost);
  });
}

void StageCache::read_checked_batch(WireReader& message) {
  if (current_ == nullptr) throw Error(ErrorCode::invalid_argument, "the cache has no weights");
  read_batch(message, executor_.limits(), num_pages_, batch_);
}

gsl::span<const float> StageCache::forward(WireReader& message) {
  read_checked_batch(message);
  const gsl::span<const std::byte> bytes = message.rest();
  const size_t count =
      static_cast<size_t>(batch_.num_tokens()) * static_cast<size_t>(executor_.limits().hidden_size);
  if (bytes.size() != count * sizeof(float))
    throw Error(ErrorCode::format, "{} bytes of rows for {} tokens", bytes.size(), batch_.num_tokens());
  std::memcpy(rows_.data(), bytes.data(), bytes.size());
  const auto rows = gsl::span(rows_).first(count);
  executor_.run_rows(batch_, rows);
  return rows;
}

// Takes only numbers that are one step of the cache away, because its memory grows and shrinks in these
// pieces.
void StageCache::set_num_pages(int32_t num_pages) {
  if (num_pages == num_pages_) return;
  const int32_t least = options_.kv.least_pages;
  const int32_t most = options_.kv.num_pages;
  const int32_t chunk = options_.chunk_pages;
  const bool can_change = least > 0 && num_pages >= least && num_pages <= most;
  const bool grows = can_change && num_pages == std::min(int64_t{num_pages_} + chunk, int64_t{most});
  const bool shrinks = can_change && num_pages < num_pages_ && num_pages_ - num_pages <= chunk &&
                       (num_pages - least) % chunk == 0;
  if (!grows && !shrinks)
    throw Error(ErrorCode::invalid_argument, "a cache of {} pages cannot change to {}", num_pages_,
                num_pages);
  const auto resize = [&](int32_t count) {
    memory_.resize(bytes_with(count), "the pages and activations of a cache");
  };
  if (grows) resize(num_pages);
  try {
    executor_.set_num_pages(num_pages);
  } catch (...) {
    resize(num_pages_);
    throw;
  }
  num_pages_ = num_pages;
  if (shrinks) resize(num_pages);
}

void StageCache::require_part(bool is_page, const StoredPart& part, size_t bytes) const {
  const ExecutorLimits& limits = executor_.limits();
  const auto is_in = [](int32_t value, int64_t end) { return value >= 0 && value < end; };
  bool is_sound = false;
  if (is_page) {
    is_sound = is_in(part.of, 1 + static_cast<int64_t>(limits.windows.size())) &&
               is_in(part.index, part.of == 0 ? num_pages_
                                              : limits.windows[static_cast<size_t>(part.of) - 1].num_slots) &&
               bytes == executor_.page_bytes(part.of);
  } else if (limits.num_state_slots > 0) {
    is_sound = is_in(part.of, limits.state_slots().slots_at(num_pages_)) && is_in(part.index, 2) &&
               bytes == executor_.state_bytes();
  }
  if (!is_sound)
    throw Error(ErrorCode::format, "there is no {} {} of {} with {} bytes", is_page ? "page" : "bank",
                part.index, part.of, bytes);
}

std::vector<std::byte> StageCache::read(StageRequest kind, const StoredPart& part) {
  const bool is_page = kind == StageRequest::read_page;
  const bool is_table = part.of >= 0 && static_cast<size_t>(part.of) <= executor_.limits().windows.size();
  std::vector<std::byte> bytes(is_page ? (is_table ? executor_.page_bytes(part.of) : 0)
                                       : executor_.state_bytes());
  require_part(is_page, part, bytes.size());
  if (is_page) {
    executor_.read_page(part.of, PageId{part.index}, bytes);
  } else {
    executor_.read_state(part.of, part.index, bytes);
  }
  return bytes;
}

void StageCache::write(StageRequest kind, const StoredPart& part, gsl::span<const std::byte> bytes) {
  const bool is_page = kind == StageRequest::write_page;
  require_part(is_page, part, bytes.size());
  if (is_page) {
    executor_.write_page(part.of, PageId{part.index}, bytes);
  } else {
    executor_.write_state(part.of, part.index, bytes);
  }
}

}  // namespace quire

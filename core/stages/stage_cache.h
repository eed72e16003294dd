// Layers and caches in a stage process.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/mutex.h"
#include "core/models/transformer_executor.h"
#include "core/stages/messages.h"
#include "core/stages/stage_memory.h"
#include "core/tensor/row_link.h"

namespace quire {

// Layers that a host has built or planned. Immutable.
struct StageLayers {
  BuildRequest request;
  StageMemory::Reservation memory;  // declared before the weights, so that it is given back after them
  std::shared_ptr<const Transformer> transformer;

  // Returns whether a cache for layers of `other` can compute with these weights.
  bool serves(const StageLayers& other) const;
};

// Layers of all hosts of a stage, by number. A cache of one connection finds those of another one. Does not
// keep them alive. Thread-safe.
class LayerRegistry {
 public:
  uint64_t add(const std::shared_ptr<const StageLayers>& layers);
  // Throws ErrorCode::not_found if the layers with this id were freed.
  std::shared_ptr<const StageLayers> at(uint64_t id) const;

 private:
  // Guards the layers and their numbers.
  mutable Mutex mutex_;
  uint64_t last_ QUIRE_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, std::weak_ptr<const StageLayers>> layers_ QUIRE_GUARDED_BY(mutex_);
};

// Pages, states and activations of one cache of a host, for the layers of the stage. For one thread at a
// time. All arguments come from the host and are checked.
class StageCache {
 public:
  // Throws ErrorCode::out_of_memory, or ErrorCode::invalid_argument for sizes that are not allowed.
  StageCache(std::shared_ptr<const StageLayers> layers, const TransformerExecutorOptions& options,
             StageMemory& memory);

  // Throws ErrorCode::invalid_argument if the weights are of other layers.
  void acquire_weights(std::shared_ptr<const StageLayers> layers);
  void release_weights();
  // Reads a batch and rows from the message, and returns the rows after the layers. They are valid until the
  // next call.
  gsl::span<const float> forward(WireReader& message);
  // Connects the card with that of the host, so that rows travel between them; see RowLink.
  void begin_link(const LinkRequest& request);
  void finish_link(const std::atomic<bool>& is_lost);
  void drop_link() { link_.reset(); }
  // The parts of a pass whose rows come by the link: reads a batch from the message and receives its rows,
  // computes, and begins to send the rows back.
  void receive_rows(WireReader& message, const std::atomic<bool>& is_lost);
  void compute_received() { executor_.run_received(batch_); }
  void send_rows(const std::atomic<bool>& is_lost);
  void set_num_pages(int32_t num_pages);
  std::vector<std::byte> read(StageRequest kind, const StoredPart& part);
  void write(StageRequest kind, const StoredPart& part, gsl::span<const std::byte> bytes);

  ExecutorAnswer stored_bytes() const;
  // Returns the largest request that the host may send.
  uint64_t largest_message() const;

 private:
  void require_part(bool is_page, const StoredPart& part, size_t bytes) const;
  uint64_t bytes_with(int32_t num_pages) const;
  void read_checked_batch(WireReader& message);
  template <typename Transfer>
  void over_link(Transfer transfer);

  const std::shared_ptr<const StageLayers> layers_;
  const TransformerExecutorOptions options_;
  StageMemory::Reservation memory_;
  std::shared_ptr<const StageLayers> current_;  // whose weights compute; null: none
  TransformerExecutor executor_;
  int32_t num_pages_;  // pages that have memory
  Batch batch_;
  std::vector<float> rows_;
  std::optional<RowLink> link_;
};

}  // namespace quire

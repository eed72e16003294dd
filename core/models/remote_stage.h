// Layers of a model that lie in another process: what a pipeline needs of them. core/stages implements these
// interfaces by messages.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gsl/gsl>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/sha256.h"
#include "core/layers/layer_builder.h"
#include "core/models/placement.h"
#include "core/step/batch.h"
#include "core/step/window_group.h"

namespace quire {

struct TransformerExecutorOptions;

// A model that several processes read, each from its own files.
struct SharedModel {
  std::string path;   // as the process of the ends has it; others find it below a directory of their own
  Sha256 identity{};  // of its files (ModelSource::identity)
  const std::atomic<bool>* cancel = nullptr;  // ends a build when it is set; null: nothing does
  TimePoint deadline = TimePoint::max();      // ends a build too
};

// Layers to build in another process.
struct RemoteBuild {
  const SharedModel& model;
  int32_t first_layer = 0;
  int32_t end_layer = 0;
  kernels::ActivationDtype activations = kernels::ActivationDtype::full;
  BuildMode mode = BuildMode::prepare;
};

// Bytes of weights on the device of the other process.
struct RemoteWeightBytes {
  std::vector<uint64_t> layers;
  uint64_t ropes = 0;
  uint64_t step = 0;  // read by a step of one token
  uint64_t layer_sum() const { return std::accumulate(layers.begin(), layers.end(), uint64_t{0}); }
};

// Bytes of a cache there, without weights.
struct RemoteCacheBytes {
  struct Layer {
    uint64_t kv = 0, states = 0;
    Layer& operator+=(const Layer& other) {
      kv += other.kv;
      states += other.states;
      return *this;
    }
  };
  std::vector<Layer> layers;
  uint64_t kv = 0, states = 0;  // of all layers; kv also has what belongs to no layer
  uint64_t workspace = 0;
  uint64_t staging = 0;  // host memory for copies
};

class RemoteLayers;

// Pages, states and activations of one cache in the other process. For one thread at a time. Each call throws
// ErrorCode::device_lost if the process is lost, at most two seconds after it was.
class RemoteExecutor {
 public:
  virtual ~RemoteExecutor() = default;
  // Computes with these weights, which have the sizes that the executor was created for, until
  // release_weights.
  virtual void acquire_weights(const RemoteLayers& layers) = 0;
  virtual void release_weights() = 0;
  // Passes rows through the layers: [T, hidden], in place. A layer reads the copies, the lengths, the page
  // tables and the states of the batch.
  virtual void forward(const Batch& batch, gsl::span<float> rows) = 0;
  // Returns whether rows travel from card to card. If they do, forward_linked does the same with rows in the
  // memory of the context that the executor was created with, [T, columns], and `forward` is not called.
  virtual bool is_linked() const = 0;
  virtual void forward_linked(const Batch& batch, float* device_rows, int32_t columns) = 0;
  virtual void set_num_pages(int32_t num_pages) = 0;
  // See Executor::page_bytes and the functions after it.
  virtual uint64_t page_bytes(int32_t table) const = 0;
  virtual uint64_t state_bytes() const = 0;
  virtual void read_page(int32_t table, PageId page, gsl::span<std::byte> out) = 0;
  virtual void write_page(int32_t table, PageId page, gsl::span<const std::byte> bytes) = 0;
  virtual void read_state(int32_t slot, int32_t bank, gsl::span<std::byte> out) = 0;
  virtual void write_state(int32_t slot, int32_t bank, gsl::span<const std::byte> bytes) = 0;
};

// Built or planned layers. The destructor frees them in the other process. Any thread.
class RemoteLayers {
 public:
  virtual ~RemoteLayers() = default;
  virtual const RemoteWeightBytes& bytes() const = 0;
  // Returns the memory that a link to the other process takes on a device of this one, so that rows travel
  // from card to card; 0: they cannot.
  virtual uint64_t link_bytes(const Device& home) const = 0;
  // Returns the bytes that create_executor will take, computed by the backend of the other process.
  // is_linked: link_bytes of the device of the context that it will be given is not 0.
  virtual RemoteCacheBytes plan_cache(const TransformerExecutorOptions& options, bool is_linked) const = 0;
  // `home` has the rows before and after the layers. The executor keeps it alive if it links it.
  virtual std::unique_ptr<RemoteExecutor> create_executor(const TransformerExecutorOptions& options,
                                                          const DeviceContext& home) const = 0;
};

// A process that has a device for layers. Any thread.
class StagePeer {
 public:
  virtual ~StagePeer() = default;
  // Throws the errors of a load, not_found if the process has no such model, format if its files are others,
  // and device_lost.
  virtual std::shared_ptr<const RemoteLayers> build(const RemoteBuild& what) = 0;
};

}  // namespace quire

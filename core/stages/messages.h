// Messages between a host and a stage. A host sends a request: its kind (u8) and its fields. The stage
// answers each one: a result (u8), its free bytes (u64), and the fields of the answer or of an error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/models/remote_stage.h"
#include "core/models/transformer_executor.h"
#include "core/stages/stage_link.h"
#include "core/stages/wire.h"

namespace quire {

enum class StageRequest : uint8_t {
  describe = 1,
  build = 2,
  plan_cache = 3,
  drop = 4,  // frees layers
  create_executor = 5,
  acquire_weights = 6,
  release_weights = 7,
  forward = 8,
  set_num_pages = 9,
  read_page = 10,
  write_page = 11,
  read_state = 12,
  write_state = 13,
  close = 14,       // frees all that the connection has
  begin_link = 15,  // begins to connect the cards of both processes, so that rows travel between them
  finish_link = 16,
  drop_link = 17,
  forward_linked = 18,
};

// Largest number of bytes of a request or answer beside rows, pages and page tables.
inline constexpr uint64_t kPlainMessageBytes = uint64_t{1} << 20;
// Largest message of all.
inline constexpr uint64_t kMostMessageBytes = uint64_t{1} << 31;

// Returns the version of this library, which both processes must have.
std::string_view library_version();

struct StageDescription {
  std::string version;
  std::string table;  // KernelTable::name
  std::string device;
  std::string detail;
  uint64_t capabilities = 0;
  uint64_t mechanisms = 0;
  kernels::DType activation_dtype = kernels::DType::f32;
  uint64_t total_bytes = 0;
  int32_t num_units = 0;
  LinkOffer links;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(version, table, device, detail, capabilities, mechanisms, activation_dtype, total_bytes, num_units,
         links.library, links.refusal);
  }
};

struct BuildRequest {
  std::string path;
  Sha256 identity{};
  int32_t first_layer = 0;
  int32_t end_layer = 0;
  int32_t activations = 0;
  bool is_plan = false;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(path, identity, first_layer, end_layer, activations, is_plan);
  }
};

struct BuildAnswer {
  uint64_t id = 0;  // names the layers in later requests
  RemoteWeightBytes bytes;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(id, bytes.layers, bytes.ropes, bytes.step);
  }
};

// Sizes of a cache, and the layers that it is for.
struct CacheRequest {
  uint64_t id = 0;
  TransformerExecutorOptions options;

  template <typename Wire>
  void fields(Wire& wire) {
    std::vector<int32_t> windows;
    for (const WindowGroup& group : options.kv.windows) {
      windows.push_back(group.window);
      windows.push_back(group.num_slots);
    }
    CachePages& kv = options.kv;
    wire(id, options.max_tokens, options.max_sequences, options.max_pages_per_sequence, options.max_seq_len,
         options.chunk_pages, kv.key_format, kv.value_format, kv.page_tokens, kv.num_pages,
         kv.num_state_slots, kv.least_pages, kv.least_state_slots, windows, options.is_linked);
    kv.windows.clear();
    for (size_t i = 0; i + 1 < windows.size(); i += 2) kv.windows.push_back({windows[i], windows[i + 1]});
  }
};

// Throws ErrorCode::invalid_argument unless all sizes are ones that a host may ask for.
void require_cache_sizes(const TransformerExecutorOptions& options);

struct CachePlanAnswer {
  std::vector<uint64_t> kv, states;  // by layer
  RemoteCacheBytes bytes;            // its layers are in the lists

  template <typename Wire>
  void fields(Wire& wire) {
    wire(kv, states, bytes.kv, bytes.states, bytes.workspace, bytes.staging);
  }
};

struct ExecutorAnswer {
  std::vector<uint64_t> page_bytes;  // by page table
  uint64_t state_bytes = 0;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(page_bytes, state_bytes);
  }
};

// A page of a page table, or a bank of a state slot.
struct StoredPart {
  int32_t of = 0;     // page table, or slot
  int32_t index = 0;  // page, or bank

  template <typename Wire>
  void fields(Wire& wire) {
    wire(of, index);
  }
};

// The name of a link.
struct LinkRequest {
  std::vector<uint8_t> id;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(id);
  }
};

struct ErrorAnswer {
  int32_t code = 0;
  std::string message;
  std::string parameter;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(code, message, parameter);
  }
};

// Writes what layers read of a batch. Positions follow from the lengths of sequences; tokens and rows of
// logits are for the ends.
void write_batch(const Batch& batch, WireWriter& wire);
// Reads such a batch into `batch`. Throws ErrorCode::format unless it keeps the limits, names only pages and
// slots that exist while num_pages pages have memory, and is consistent in itself.
void read_batch(WireReader& wire, const ExecutorLimits& limits, int32_t num_pages, Batch& batch);

// Returns an upper limit of the bytes of a request to an executor.
uint64_t largest_request(const ExecutorLimits& limits, uint64_t most_stored_bytes);

}  // namespace quire

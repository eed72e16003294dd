// Interface of an executor, which computes steps: a model on a device, or the tiny exact model of the
// simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/error.h"
#include "core/step/batch.h"
#include "core/step/draft_network.h"
#include "core/step/state_slots.h"
#include "core/step/step_breaks.h"
#include "core/step/window_group.h"

namespace quire {

// Sizes that an executor was built for; no batch may exceed them.
// Wide type: a table of independent limits.
struct ExecutorLimits {
  int32_t max_tokens = 0;              // T of one step
  int32_t max_sequences = 0;           // S
  int32_t max_logit_rows = 0;          // L
  int32_t max_pages_per_sequence = 0;  // largest page_table_stride
  int32_t num_pages = 0;
  int32_t page_tokens = 0;
  int32_t vocab_size = 0;      // columns of the logits
  int32_t hidden_size = 0;     // columns of the hidden states; 0 if they are not available
  bool makes_draws = false;    // `draw` accepts rows
  bool follows = false;        // a forward pass may be issued between draw and wait of the previous one
  int32_t max_draw_edits = 0;  // of all draws of a step
  int32_t num_breaks = 0;      // points in a forward pass at which it may be paused or aborted
  // At most kMaxWindowGroups, by ascending window. A batch has a page table for each of them.
  std::vector<WindowGroup> windows = {};
  int32_t num_state_slots = 0;  // for recurrent states of sequences; 0: no layer has one
  // For caches that grow and shrink: the number of pages that have memory at first, and by how many
  // set_num_pages grows or shrinks. 0: all pages always have memory.
  int32_t least_pages = 0;
  int32_t chunk_pages = 0;
  // For them too: the number of state slots that have memory at first. Others get it with the pages. 0: all
  // slots always have memory.
  int32_t least_state_slots = 0;

  // Returns the number of pages that exist regardless of other users of the memory.
  int32_t guaranteed_pages() const { return least_pages > 0 ? least_pages : num_pages; }
  StateSlotRange state_slots() const { return {num_state_slots, least_state_slots, num_pages, least_pages}; }
};

// Choices of experts that lie in host memory, by whether the card had the expert in a slot.
struct ExpertUse {
  uint64_t hits = 0;
  uint64_t misses = 0;
};

// One forward pass and the draws from it.
using Ticket = StrongId<struct TicketTag, uint64_t>;

// For one thread at a time. Allocates all its memory at construction. Call order: forward, draw, wait; with
// `follows` the next forward may come before wait. Any call throws an Error with ErrorCode::device_lost if
// the device is lost. After any other Error the executor remains usable: the next call is forward or, if a
// pass issued ahead failed, the outstanding wait.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorLimits& limits() const = 0;
  // For weights that may be evicted from their devices between two steps. acquire_weights acquires the
  // current weights before the first forward, and rebuilds recorded steps that refer to other weights.
  // release_weights waits for running work and releases them.
  virtual void acquire_weights() {}
  virtual void release_weights() {}
  // Gives memory to the first num_pages pages and the state slots that belong to them (ExecutorLimits::
  // state_slots): one chunk more than before, with undefined content, or one less. Later passes name none
  // beyond. Throws out_of_memory and then changes nothing.
  virtual void set_num_pages(int32_t /*num_pages*/) {
    throw Error(ErrorCode::unsupported, "this executor cannot grow or shrink its cache");
  }
  // Sets the object that is called at the breaks of a forward pass. Exceptions it throws propagate out of
  // `forward`. It must outlive its use by the executor.
  virtual void set_breaks(StepBreaks* /*breaks*/) {}
  // Returns the choices of all passes so far; zeros if no card has such slots.
  virtual ExpertUse expert_use() const { return {}; }
  // Enqueues the page copies and the forward pass, and returns without waiting if the device is asynchronous.
  // `draw` must have been called for the previous pass.
  virtual Ticket forward(const Batch& batch) = 0;
  // Enqueues the draws from the last forward pass and the copy of its other rows to the host. `draws` and the
  // memory it points to may change after the call.
  virtual void draw(Ticket ticket, const DeviceDraws& draws) = 0;
  // Waits for the work enqueued by draw. The result is valid until the next draw.
  virtual Drawn wait(Ticket ticket) = 0;
  // Copies the hidden states after the last norm of rows first_row, first_row + 1, ... of the last batch,
  // which must have requested them, to `out`: [n, hidden_size]. Called after wait.
  virtual void read_hidden(int32_t /*first_row*/, gsl::span<float> /*out*/) {
    throw Error(ErrorCode::unsupported, "this executor cannot return hidden states");
  }
  // Returns the draft network that shares the pages of this executor; nullptr if there is none. Page copies
  // are made for it by its own passes.
  virtual DraftNetwork* draft_network() { return nullptr; }
  // Returns the bytes of one page of a page table, over all layers and devices. Returns 0 if pages cannot be
  // read, or if no layer uses the table. Table 0 is the page table of the cache; table 1 + g is that of
  // window group g, and its pages are the slots of the window. The same bytes written to any page of the
  // table give the same keys and values there. read_page and write_page wait for passes issued before: an
  // abandoned pass may still write to a page that has a new owner.
  virtual uint64_t page_bytes(int32_t /*table*/) const { return 0; }
  virtual void read_page(int32_t /*table*/, PageId /*page*/, gsl::span<std::byte> /*out*/) {
    throw Error(ErrorCode::unsupported, "this executor cannot read pages");
  }
  virtual void write_page(int32_t /*table*/, PageId /*page*/, gsl::span<const std::byte> /*bytes*/) {
    throw Error(ErrorCode::unsupported, "this executor cannot write pages");
  }
  // Returns the bytes of one bank of a state slot, over all layers and devices; 0 if no layer has a state.
  // The same bytes written to either bank of any slot give the same state there. read_state and write_state
  // wait for passes issued before, as read_page does.
  virtual uint64_t state_bytes() const { return 0; }
  virtual void read_state(int32_t /*slot*/, int32_t /*bank*/, gsl::span<std::byte> /*out*/) {
    throw Error(ErrorCode::unsupported, "this executor cannot read states");
  }
  virtual void write_state(int32_t /*slot*/, int32_t /*bank*/, gsl::span<const std::byte> /*bytes*/) {
    throw Error(ErrorCode::unsupported, "this executor cannot write states");
  }
};

}  // namespace quire

// The seam to whatever computes a step: a model on a device, or the tiny exact model of the simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/base/error.h"
#include "core/step/batch.h"
#include "core/step/step_breaks.h"
#include "core/step/window_group.h"

namespace quire {

// What an executor was sized for; no batch may exceed it.
struct ExecutorLimits {
  int32_t max_tokens = 0;              // T of one step
  int32_t max_sequences = 0;           // S
  int32_t max_logit_rows = 0;          // L
  int32_t max_pages_per_sequence = 0;  // page_table_stride at most
  int32_t num_pages = 0;
  int32_t page_tokens = 0;
  int32_t vocab_size = 0;      // columns of the logits
  int32_t hidden_size = 0;     // columns of the states; 0 where they cannot be had
  bool makes_draws = false;    // draw takes rows
  bool follows = false;        // a forward pass may be issued between draw and wait of the one before
  int32_t max_draw_edits = 0;  // of all draws of a step
  int32_t num_breaks = 0;      // places in a forward pass at which it may be held up or given up
  // At most kMaxWindowGroups, by rising window. A batch has a page table for each of them.
  std::vector<WindowGroup> windows = {};
  // Of those that grow and shrink: pages that have memory at first, and how many set_num_pages adds at a
  // time. 0: all pages always have memory.
  int32_t least_pages = 0;
  int32_t chunk_pages = 0;

  // How many pages there are whatever others take.
  int32_t promised_pages() const { return least_pages > 0 ? least_pages : num_pages; }
};

// One forward pass and the draws from it.
using Ticket = StrongId<struct TicketTag, uint64_t>;

// One thread at a time; all memory is taken at construction. Order of the calls: forward, draw, wait; with
// `follows` the forward pass after this one may come before wait. Any call throws an Error with
// ErrorCode::device_lost where the device is gone. Any other Error leaves the executor usable: the next call
// is forward, or, where a pass failed that was issued ahead, the wait that was due.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorLimits& limits() const = 0;
  // Weights that may leave their devices between two steps: takes hold of those that are there now, before
  // the first forward; what was kept of others (recorded steps) is made anew. drop_weights waits for what is
  // under way and lets them go.
  virtual void take_weights() {}
  virtual void drop_weights() {}
  // The first num_pages have memory from now on: a chunk more than before, with undefined content, or less;
  // nothing that is issued later names a page beyond. Throws out_of_memory and leaves it as it was.
  virtual void set_num_pages(int32_t /*num_pages*/) {
    throw Error(ErrorCode::unsupported, "this executor has all its pages from the start");
  }
  // Whom to ask at the breaks of a forward pass, which passes on what it throws; outlives the executor's use.
  virtual void set_breaks(StepBreaks* /*breaks*/) {}
  // Enqueues the page copies and the forward pass, and returns without waiting where the device allows it.
  // The one before has been drawn from.
  virtual Ticket forward(const Batch& batch) = 0;
  // Enqueues the draws from the last forward pass, and the way of its other rows to the host. `draws` and
  // what it points to may change once this returns.
  virtual void draw(Ticket ticket, const DeviceDraws& draws) = 0;
  // Waits for what draw has enqueued. Valid until the draw after it.
  virtual Drawn wait(Ticket ticket) = 0;
  // The states after the last norm of rows first_row, first_row + 1, ... of the last batch, which wanted
  // them: [n, hidden_size] in `out`. After wait.
  virtual void read_hidden(int32_t /*first_row*/, gsl::span<float> /*out*/) {
    throw Error(ErrorCode::unsupported, "this executor gives no states");
  }
  // Bytes of what one page holds, over all layers and devices; 0 where pages cannot be read. The same bytes
  // written to any page are the same keys and values there. Both wait for what was issued before: a pass that
  // nobody wants any more may still write on a page that is another's now.
  virtual uint64_t page_bytes() const { return 0; }
  virtual void read_page(PageId /*page*/, gsl::span<std::byte> /*out*/) {
    throw Error(ErrorCode::unsupported, "this executor gives no pages");
  }
  virtual void write_page(PageId /*page*/, gsl::span<const std::byte> /*bytes*/) {
    throw Error(ErrorCode::unsupported, "this executor takes no pages");
  }
};

}  // namespace quire

// Executor of a model with a draft network: one cache whose pages hold the keys and values of both.
#pragma once

#include <memory>

#include "core/models/transformer_draft_network.h"

namespace quire {

// Returns an executor for a transformer, with its draft network if it has one. `source` is that of
// TransformerExecutor.
std::unique_ptr<Executor> make_executor(const std::shared_ptr<const Transformer>& transformer,
                                        const TransformerExecutorOptions& options, WeightsSource source);

// For one thread at a time.
class DraftingExecutor final : public Executor {
 public:
  // `transformer` has a draft network.
  DraftingExecutor(const std::shared_ptr<const Transformer>& transformer,
                   const TransformerExecutorOptions& options, const WeightsSource& source);

  const ExecutorLimits& limits() const override { return target_.limits(); }
  void acquire_weights() override;
  void release_weights() override;
  void set_num_pages(int32_t num_pages) override;
  void set_breaks(StepBreaks* breaks) override { target_.set_breaks(breaks); }
  ExpertUse expert_use() const override { return target_.expert_use(); }
  Ticket forward(const Batch& batch) override { return target_.forward(batch); }
  void draw(Ticket ticket, const DeviceDraws& draws) override { target_.draw(ticket, draws); }
  Drawn wait(Ticket ticket) override { return target_.wait(ticket); }
  void read_hidden(int32_t first_row, gsl::span<float> out) override { target_.read_hidden(first_row, out); }
  DraftNetwork* draft_network() override { return &network_; }
  // A page has the bytes of the target, then those of the network, whose layers all use table 0.
  uint64_t page_bytes(int32_t table) const override;
  void read_page(int32_t table, PageId page, gsl::span<std::byte> out) override;
  void write_page(int32_t table, PageId page, gsl::span<const std::byte> bytes) override;
  uint64_t state_bytes() const override { return target_.state_bytes(); }
  void read_state(int32_t slot, int32_t bank, gsl::span<std::byte> out) override {
    target_.read_state(slot, bank, out);
  }
  void write_state(int32_t slot, int32_t bank, gsl::span<const std::byte> bytes) override {
    target_.write_state(slot, bank, bytes);
  }

 private:
  TransformerExecutor& own() { return network_.executor(); }

  TransformerExecutor target_;
  TransformerDraftNetwork network_;
  int32_t num_pages_;  // pages that have memory
};

}  // namespace quire

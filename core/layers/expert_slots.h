// Slots in the memory of a card for experts that lie in host memory: each layer has some, for the experts
// that its tokens choose most often. Counts and decides; a card does the copies.
#pragma once

#include <cstdint>
#include <vector>

#include <gsl/gsl>

#include "core/step/executor.h"
#include "kernels/interface/packed_experts.h"

namespace quire {

// For one thread at a time.
class ExpertSlots {
 public:
  // Divides num_slots, at most num_layers * num_experts, evenly among the layers.
  ExpertSlots(int32_t num_layers, int32_t num_experts, int32_t num_slots);

  // Begins a step, in which it is the next layer's turn to exchange a few experts.
  void begin_step() { turn_ = (turn_ + 1) % num_layers_; }
  bool is_turn_of(int32_t layer) const { return layer == turn_; }

  // Returns the place of each expert of a layer.
  gsl::span<const kernels::ExpertPlace> places(int32_t layer) const { return of_layer(places_, layer); }
  // Counts the experts that the tokens of a step have chosen.
  void count(int32_t layer, gsl::span<const int32_t> chosen);
  // Gives up to `most` slots of a layer to experts that are chosen more often than those in them. Those that
  // get a slot are not in it before mark_filled. Returns whether any is missing.
  bool exchange(int32_t layer, int32_t most);
  // Called once all experts of a layer that have slots are in them.
  void mark_filled(int32_t layer);
  // Empties all slots, whose experts may have changed. Keeps the counts.
  void clear();

  const ExpertUse& use() const { return use_; }

 private:
  template <typename T>
  gsl::span<T> of_layer(std::vector<T>& all, int32_t layer) const {
    return gsl::span<T>(all).subspan(static_cast<size_t>(layer) * num_experts_, num_experts_);
  }
  template <typename T>
  gsl::span<const T> of_layer(const std::vector<T>& all, int32_t layer) const {
    return gsl::span<const T>(all).subspan(static_cast<size_t>(layer) * num_experts_, num_experts_);
  }
  // Returns the slot with which those of a layer begin.
  int32_t first_slot(int32_t layer) const {
    return static_cast<int32_t>(int64_t{num_slots_} * layer / num_layers_);
  }
  // Fill the lists that `exchange` works with, for a layer.
  void list_experts(int32_t layer);
  void list_free_slots(int32_t layer);
  void halve_counts(int32_t layer);

  const int32_t num_layers_;
  const size_t num_experts_;
  const int32_t num_slots_;
  std::vector<uint32_t> counts_;              // [layers, experts]
  std::vector<uint64_t> sums_;                // [layers] of counts
  std::vector<kernels::ExpertPlace> places_;  // [layers, experts]
  // Lists of `exchange`, whose memory is kept.
  std::vector<size_t> outside_;  // chosen experts without a slot, the most chosen first
  std::vector<size_t> inside_;   // experts with a slot, the least chosen first
  std::vector<int32_t> free_;
  std::vector<bool> taken_;
  int32_t turn_ = 0;
  ExpertUse use_;
};

}  // namespace quire

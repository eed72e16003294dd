#include "core/layers/card_experts.h"

#include <bitset>

namespace quire {
namespace {

// Rows of an expert at which both take about the same time. Sixteen cores multiply a row of a 2.4 MB expert
// in 10 us; a card reads the expert in 50 us (docs/experiments/experts.md).
constexpr int32_t kRowsOfExpert = 6;

// What the functions of an operation need.
struct CallOwner {
  const DeviceContext& host;
  const CardExperts& experts;
};

kernels::Status describe_expert(void* owner, int32_t expert, kernels::PackedExpert* described) {
  const auto& of = *static_cast<const CallOwner*>(owner);
  const auto index = static_cast<size_t>(expert);
  const KernelTable& table = of.host.table();
  QUIRE_RETURN_IF_FAILED(table.describe_weight(of.experts.gate_up.handles[index], &described->gate_up));
  return table.describe_weight(of.experts.down.handles[index], &described->down);
}

kernels::Status copy_for_card(void* owner, const kernels::CopyPiece* pieces, int32_t count) {
  const DeviceContext& host = static_cast<const CallOwner*>(owner)->host;
  return host.table().copy_pieces(host.handle(), pieces, count);
}

}  // namespace

CardRows CardRows::slice(int32_t first, int32_t count) const {
  const auto first_row = ptrdiff_t{first} * num_chosen;
  CardRows own = *this;
  own.input += ptrdiff_t{first} * num_in;
  own.experts += first_row;
  if (input_scale != nullptr) own.input_scale += first_row;
  if (weights != nullptr) own.weights += first_row;
  own.tokens = count;
  return own;
}

bool pays_on_card(const int32_t* experts, int32_t num_rows, int32_t num_experts) {
  if (num_rows < kRowsOfExpert) return false;
  std::bitset<kernels::kMaxExperts> chosen;
  for (int32_t r = 0; r < num_rows; ++r)
    if (experts[r] >= 0 && experts[r] < num_experts) chosen.set(static_cast<size_t>(experts[r]));
  return static_cast<size_t>(num_rows) >= size_t{kRowsOfExpert} * chosen.count();
}

const float* sum_on_card(const ForwardPass& pass, const CardExperts& experts, const CardRows& rows) {
  const DeviceContext& card = *pass.card;
  CallOwner owner = {pass.context, experts};
  const float* sums = nullptr;
  kernels::PackedExpertsParams params;
  params.owner = &owner;
  params.describe = describe_expert;
  params.copy = copy_for_card;
  params.expert_of_row = rows.experts;
  params.input = rows.input;
  params.input_scale = rows.input_scale;
  params.weights = rows.weights;
  params.num_experts = gsl::narrow<int32_t>(experts.down.handles.size());
  params.num_chosen = rows.num_chosen;
  params.tokens = rows.tokens;
  params.mlp = experts.mlp;
  params.sums = &sums;
  card.check(card.table().sum_packed_experts(card.handle(), &params), "host experts on the card");
  return sums;
}

}  // namespace quire

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

namespace {

bool is_in_slot(const CardRows& rows, int32_t row) {
  return rows.places != nullptr && rows.places[rows.experts[row]].is_there();
}

// Returns the rows that the host multiplies if the card does not multiply all.
int32_t num_host_rows(const CardRows& rows) {
  if (rows.tokens > kernels::kMaxSlotTokens) return rows.num_rows();
  int32_t count = 0;
  for (int32_t r = 0; r < rows.num_rows(); ++r) count += is_in_slot(rows, r) ? 0 : 1;
  return count;
}

}  // namespace

int32_t num_lacking(const CardRows& rows) {
  std::bitset<kernels::kMaxExperts> lacking;
  for (int32_t r = 0; r < rows.num_rows(); ++r)
    if (!is_in_slot(rows, r)) lacking.set(static_cast<size_t>(rows.experts[r]));
  return static_cast<int32_t>(lacking.count());
}

bool pays_on_card(const CardRows& rows) {
  return num_host_rows(rows) >= kRowsOfExpert * num_lacking(rows);
}

bool are_in_slots(const CardRows& rows) {
  return rows.tokens <= kernels::kMaxSlotTokens && num_host_rows(rows) < rows.num_rows();
}

namespace {

kernels::PackedExpertsParams params_of(CallOwner& owner, const CardRows& rows) {
  const CardExperts& experts = owner.experts;
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
  params.places = rows.places;
  params.mlp = experts.mlp;
  return params;
}

}  // namespace

const float* sum_on_card(const ForwardPass& pass, const CardExperts& experts, const CardRows& rows) {
  const DeviceContext& card = *pass.card;
  CallOwner owner = {pass.context, experts};
  kernels::PackedExpertsParams params = params_of(owner, rows);
  const float* sums = nullptr;
  params.sums = &sums;
  card.check(card.table().sum_packed_experts(card.handle(), &params), "host experts on the card");
  return sums;
}

void start_on_card(const ForwardPass& pass, const CardExperts& experts, const CardRows& rows) {
  const DeviceContext& card = *pass.card;
  CallOwner owner = {pass.context, experts};
  const kernels::PackedExpertsParams params = params_of(owner, rows);
  card.check(card.table().start_slot_experts(card.handle(), &params), "host experts on the card");
}

void finish_on_card(const ForwardPass& pass, float* outputs) {
  const DeviceContext& card = *pass.card;
  card.check(card.table().finish_slot_experts(card.handle(), outputs), "host experts on the card");
}

void fill_slots(const ForwardPass& pass, const CardExperts& experts, const kernels::ExpertPlace* places) {
  const DeviceContext& card = *pass.card;
  CallOwner owner = {pass.context, experts};
  CardRows none;
  none.places = places;
  none.num_chosen = 1;
  const kernels::PackedExpertsParams params = params_of(owner, none);
  card.check(card.table().fill_expert_slots(card.handle(), &params), "copying experts to the card");
}

}  // namespace quire

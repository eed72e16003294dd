// What a card needs from this backend to multiply host experts itself: a description of their matrices as
// they lie here, and copies to the buffers of the card.
#include <cstring>

#include "kernels/cpu/device.h"
#include "kernels/cpu/table_entries.h"
#include "kernels/cpu/weight.h"

namespace quire::kernels::cpu_entries {
namespace {

// Bytes that one thread copies at a time.
constexpr size_t kCopyBytes = size_t{128} << 10;

size_t units_of(const CopyPiece& piece) {
  return (piece.bytes + kCopyBytes - 1) / kCopyBytes;
}

// Copies unit `unit` of a piece.
void copy_unit(const CopyPiece& piece, size_t unit) {
  const size_t first = unit * kCopyBytes;
  std::memcpy(static_cast<uint8_t*>(piece.to) + first, static_cast<const uint8_t*>(piece.from) + first,
              std::min(kCopyBytes, piece.bytes - first));
}

PackedPart describe_part(const Weight& weight, const WeightPart& part) {
  const RowOrder& order = weight.orders[static_cast<size_t>(part.order_idx)];
  PackedPart described;
  described.num_out = part.num_out;
  described.num_panels = part.num_panels;
  described.order = {order.features.as<int32_t>(), static_cast<int32_t>(order.num_rows)};
  described.runs = part.runs.data();
  described.num_runs = static_cast<int32_t>(part.runs.size());
  described.num_groups = part.num_groups;
  described.group_blocks = part.group_blocks.data();
  described.codes = part.data.as<void>();
  described.panel_bytes = part.panel_bytes;
  described.nibbles = part.nibbles.as<uint8_t>();
  described.scale_table = part.scale_table.as<float>();
  described.bias = part.bias.as<float>();
  return described;
}

}  // namespace

Status describe_weight(const Weight* weight, PackedWeight* described) {
  *described = {};
  if (weight->is_table || weight->parts.size() > static_cast<size_t>(kMaxPackedParts))
    return Status::unsupported;
  for (const WeightPart& part : weight->parts) {
    if (part.format != WeightFormat::exl2) return Status::unsupported;
    described->parts[described->num_parts++] = describe_part(*weight, part);
  }
  described->num_in = weight->num_in;
  described->num_out = weight->num_out;
  described->activations = weight->activations;
  return Status::ok;
}

// Units of all pieces are numbered consecutively, so that the threads share large pieces too.
Status copy_pieces(Context* context, const CopyPiece* pieces, int32_t count) {
  size_t units = 0;
  for (int32_t i = 0; i < count; ++i) units += units_of(pieces[i]);
  share_work(context, static_cast<int64_t>(units), kPieceWork, [&](int32_t, int64_t first, int64_t last) {
    auto skipped = static_cast<size_t>(first), left = static_cast<size_t>(last - first);
    for (int32_t i = 0; left > 0; ++i) {
      const size_t own = units_of(pieces[i]);
      for (size_t unit = skipped; unit < own && left > 0; ++unit, --left) copy_unit(pieces[i], unit);
      skipped -= std::min(skipped, own);
    }
  });
  return Status::ok;
}

// Entries of cards alone.
Status multiply_packed_experts(Context*, const PackedExpertsParams*) {
  return Status::unsupported;
}
Status finish_slot_experts(Context*, float*) {
  return Status::unsupported;
}

}  // namespace quire::kernels::cpu_entries

// Pages and states of a transformer executor on their way to host memory and back.
#include "core/models/transformer_executor.h"

namespace quire {

// Calls `visit` for each piece of a page or state with its device and its offset in the bytes. Pieces are in
// the order of stages, then shards.
template <typename PiecesOf, typename Visit>
void TransformerExecutor::for_each_piece(PiecesOf pieces_of, Visit visit) const {
  uint64_t place = 0;
  for (const StageShards& stage : stages_) {
    for (const StageShardState& shard : stage.shards) {
      for (const PagePiece& piece : pieces_of(shard.memory)) {
        visit(*shard.context.device(), piece, static_cast<size_t>(place));
        place += piece.bytes;
      }
    }
  }
}

TransformerExecutor::StoredBytes TransformerExecutor::count_stored_bytes() const {
  StoredBytes bytes;
  for (size_t table = 0; table <= limits_.windows.size(); ++table) {
    for_each_piece(
        [table](const TransformerMemory& memory) {
          return memory.pieces_of(static_cast<int32_t>(table), PageId{0});
        },
        [&](const Device&, const PagePiece& piece, size_t) { bytes.pages[table] += piece.bytes; });
  }
  if (limits_.num_state_slots == 0) return bytes;
  for_each_piece([](const TransformerMemory& memory) { return memory.pieces_of_state(0, 0); },
                 [&](const Device&, const PagePiece& piece, size_t) { bytes.state += piece.bytes; });
  return bytes;
}

template <typename PiecesOf>
void TransformerExecutor::read_pieces(PiecesOf pieces_of, gsl::span<std::byte> out) const {
  for_each_piece(pieces_of, [&](const Device& device, const PagePiece& piece, size_t place) {
    device.check(
        device.table().download(device.handle(), out.data() + place, piece.address, size_t{piece.bytes}),
        "reading a page");
  });
}

template <typename PiecesOf>
void TransformerExecutor::write_pieces(PiecesOf pieces_of, gsl::span<const std::byte> bytes) const {
  for_each_piece(pieces_of, [&](const Device& device, const PagePiece& piece, size_t place) {
    device.check(
        device.table().upload(device.handle(), piece.address, bytes.data() + place, size_t{piece.bytes}),
        "writing a page");
  });
}

// Waits first, because work issued before may still read or write the page.
void TransformerExecutor::read_page(int32_t table, PageId page, gsl::span<std::byte> out) {
  wait_for_all("waiting for a page");
  read_pieces([=](const TransformerMemory& memory) { return memory.pieces_of(table, page); }, out);
}

void TransformerExecutor::write_page(int32_t table, PageId page, gsl::span<const std::byte> bytes) {
  wait_for_all("waiting for a page");
  write_pieces([=](const TransformerMemory& memory) { return memory.pieces_of(table, page); }, bytes);
}

void TransformerExecutor::read_state(int32_t slot, int32_t bank, gsl::span<std::byte> out) {
  wait_for_all("waiting for a state");
  read_pieces([=](const TransformerMemory& memory) { return memory.pieces_of_state(slot, bank); }, out);
}

void TransformerExecutor::write_state(int32_t slot, int32_t bank, gsl::span<const std::byte> bytes) {
  wait_for_all("waiting for a state");
  write_pieces([=](const TransformerMemory& memory) { return memory.pieces_of_state(slot, bank); }, bytes);
}

}  // namespace quire

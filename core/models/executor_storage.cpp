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

// In the bytes of a page or state, the parts of other processes come after all others.
TransformerExecutor::StoredBytes TransformerExecutor::count_stored_bytes() const {
  StoredBytes bytes;
  for (size_t table = 0; table <= limits_.windows.size(); ++table) {
    for_each_piece(
        [table](const TransformerMemory& memory) {
          return memory.pieces_of(static_cast<int32_t>(table), PageId{0});
        },
        [&](const Device&, const PagePiece& piece, size_t) { bytes.pages[table] += piece.bytes; });
    for_each_remote([&](const RemoteExecutor& remote) {
      bytes.pages[table] += remote.page_bytes(static_cast<int32_t>(table));
    });
  }
  if (limits_.num_state_slots == 0) return bytes;
  for_each_piece([](const TransformerMemory& memory) { return memory.pieces_of_state(0, 0); },
                 [&](const Device&, const PagePiece& piece, size_t) { bytes.state += piece.bytes; });
  for_each_remote([&](const RemoteExecutor& remote) { bytes.state += remote.state_bytes(); });
  return bytes;
}

template <typename PiecesOf>
size_t TransformerExecutor::read_pieces(PiecesOf pieces_of, gsl::span<std::byte> out) const {
  size_t end = 0;
  for_each_piece(pieces_of, [&](const Device& device, const PagePiece& piece, size_t place) {
    device.check(
        device.table().download(device.handle(), out.data() + place, piece.address, size_t{piece.bytes}),
        "reading a page");
    end = place + size_t{piece.bytes};
  });
  return end;
}

template <typename PiecesOf>
size_t TransformerExecutor::write_pieces(PiecesOf pieces_of, gsl::span<const std::byte> bytes) const {
  size_t end = 0;
  for_each_piece(pieces_of, [&](const Device& device, const PagePiece& piece, size_t place) {
    device.check(
        device.table().upload(device.handle(), piece.address, bytes.data() + place, size_t{piece.bytes}),
        "writing a page");
    end = place + size_t{piece.bytes};
  });
  return end;
}

// Waits first, because work issued before may still read or write the page.
void TransformerExecutor::read_page(int32_t table, PageId page, gsl::span<std::byte> out) {
  wait_for_all("waiting for a page");
  size_t at =
      read_pieces([=](const TransformerMemory& memory) { return memory.pieces_of(table, page); }, out);
  for_each_remote([&](RemoteExecutor& remote) {
    const auto size = static_cast<size_t>(remote.page_bytes(table));
    if (size > 0) remote.read_page(table, page, out.subspan(at, size));
    at += size;
  });
}

void TransformerExecutor::write_page(int32_t table, PageId page, gsl::span<const std::byte> bytes) {
  wait_for_all("waiting for a page");
  size_t at =
      write_pieces([=](const TransformerMemory& memory) { return memory.pieces_of(table, page); }, bytes);
  for_each_remote([&](RemoteExecutor& remote) {
    const auto size = static_cast<size_t>(remote.page_bytes(table));
    if (size > 0) remote.write_page(table, page, bytes.subspan(at, size));
    at += size;
  });
}

void TransformerExecutor::read_state(int32_t slot, int32_t bank, gsl::span<std::byte> out) {
  wait_for_all("waiting for a state");
  size_t at =
      read_pieces([=](const TransformerMemory& memory) { return memory.pieces_of_state(slot, bank); }, out);
  for_each_remote([&](RemoteExecutor& remote) {
    const auto size = static_cast<size_t>(remote.state_bytes());
    if (size > 0) remote.read_state(slot, bank, out.subspan(at, size));
    at += size;
  });
}

void TransformerExecutor::write_state(int32_t slot, int32_t bank, gsl::span<const std::byte> bytes) {
  wait_for_all("waiting for a state");
  size_t at = write_pieces(
      [=](const TransformerMemory& memory) { return memory.pieces_of_state(slot, bank); }, bytes);
  for_each_remote([&](RemoteExecutor& remote) {
    const auto size = static_cast<size_t>(remote.state_bytes());
    if (size > 0) remote.write_state(slot, bank, bytes.subspan(at, size));
    at += size;
  });
}

}  // namespace quire

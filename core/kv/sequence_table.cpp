#include "core/kv/sequence_table.h"

namespace quire {
namespace {

constexpr uint32_t kEntryBits = 24;

uint32_t place_of(SequenceId id) {
  return static_cast<uint32_t>(id.value & ((1U << kEntryBits) - 1));
}

}  // namespace

SequenceId SequenceTable::add(const PrefixRoot& root, bool reuse, bool publish) {
  if (free_entries_.empty()) {
    free_entries_.reserve(places_.size() + 1);
    auto fresh = std::make_unique<Sequence>();
    fresh->pages.reserve(max_pages_);
    places_.push_back(std::move(fresh));
    free_entries_.push_back(static_cast<uint32_t>(places_.size() - 1));
  }
  const uint32_t place = free_entries_.back();
  free_entries_.pop_back();
  Sequence& sequence = *places_[place];
  ++sequence.generation;
  sequence.reuse = reuse;
  sequence.publish = publish;
  sequence.root = root;
  sequence.tail = root.content;
  sequence.length = 0;
  sequence.junction = 0;
  ++size_;
  return SequenceId{sequence.generation << kEntryBits | place};
}

void SequenceTable::remove(SequenceId id) noexcept {
  Sequence& sequence = at(id);
  Expects(sequence.pages.empty());
  sequence.length = 0;
  ++sequence.generation;
  free_entries_.push_back(place_of(id));
  --size_;
}

Sequence& SequenceTable::at(SequenceId id) {
  Sequence& sequence = *places_[place_of(id)];
  Expects(sequence.generation == id.value >> kEntryBits);
  return sequence;
}

const Sequence& SequenceTable::at(SequenceId id) const {
  return const_cast<SequenceTable*>(this)->at(id);
}

}  // namespace quire

#include "core/constrained/stack_store.h"

#include <algorithm>

#include "core/constrained/states_full.h"

namespace quire {
namespace {

uint64_t hash_of(const StackNode& node) {
  uint64_t hash = static_cast<uint64_t>(node.op) * 0x9E3779B97F4A7C15U;
  for (const uint32_t part : {node.a, node.b, node.next})
    hash = (hash ^ part) * 0xC2B2AE3D27D4EB4FU + (hash >> 29);
  return hash ^ (hash >> 32);
}

bool is_same(const StackNode& a, const StackNode& b) {
  return a.op == b.op && a.a == b.a && a.b == b.b && a.next == b.next;
}

}  // namespace

StackStore::StackStore(size_t max_nodes) : max_nodes_(max_nodes) {
  nodes_.push_back({});
}

StackId StackStore::push(StackOp op, uint32_t a, uint32_t b, StackId next) {
  const StackNode node{op, a, b, next, nodes_[next].depth + 1};
  const uint64_t hash = hash_of(node);
  Part& part = parts_[hash >> 58];
  if (2 * part.num_nodes >= part.places.size()) widen(part);
  const size_t place = find(part, node, hash);
  if (part.places[place] != kEnd) return part.places[place];
  check_space();
  nodes_.push_back(node);
  ++part.num_nodes;
  return part.places[place] = static_cast<StackId>(nodes_.size() - 1);
}

void StackStore::check_space() const {
  if (size() >= capacity_of(max_nodes_)) throw StatesFull("max_items", max_nodes_, "items");
}

// Returns the slot of the node, or the free slot for it. There is always a free slot.
size_t StackStore::find(const Part& part, const StackNode& node, uint64_t hash) const {
  const size_t num_places = part.places.size();
  size_t place = (hash & UINT32_MAX) * num_places >> 32;
  while (part.places[place] != kEnd && !is_same(nodes_[part.places[place]], node))
    place = place + 1 == num_places ? 0 : place + 1;
  return place;
}

// Grows the table. Parts start with different sizes, so that they do not all grow at the same time.
void StackStore::widen(Part& part) {
  const size_t first_places = parts_.size() + static_cast<size_t>(&part - parts_.data());
  Part wider{std::vector<StackId>(std::max(first_places, 2 * part.places.size())), part.num_nodes};
  for (const StackId id : part.places) {
    if (id != kEnd) wider.places[find(wider, nodes_[id], hash_of(nodes_[id]))] = id;
  }
  part = std::move(wider);
}

}  // namespace quire

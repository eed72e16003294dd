#include "core/constrained/stack_store.h"

#include "core/base/error.h"

namespace quire {

size_t StackStore::Hash::operator()(const StackNode& node) const {
  uint64_t hash = static_cast<uint64_t>(node.op) * 0x9E3779B97F4A7C15U;
  for (const uint32_t part : {node.a, node.b, node.next})
    hash = (hash ^ part) * 0xC2B2AE3D27D4EB4FU + (hash >> 29);
  return static_cast<size_t>(hash ^ (hash >> 32));
}

StackStore::StackStore(size_t max_nodes) : max_nodes_(max_nodes) {
  nodes_.emplace_back();
}

StackId StackStore::push(StackOp op, uint32_t a, uint32_t b, StackId next) {
  const StackNode node{op, a, b, next, nodes_[next].depth + 1};
  const auto [it, is_new] = ids_.emplace(node, static_cast<StackId>(nodes_.size()));
  if (!is_new) return it->second;
  if (nodes_.size() >= max_nodes_) {
    ids_.erase(it);
    throw Error(ErrorCode::capacity, "the constraint needs more than max_items = {} items", max_nodes_);
  }
  nodes_.push_back(node);
  return it->second;
}

}  // namespace quire

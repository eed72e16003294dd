// Stacks of what is still to come, shared by all that stand on the same rest.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/constrained/byte_automaton.h"
#include "core/constrained/chunked.h"

namespace quire {

using StackId = uint32_t;

enum class StackOp : uint32_t {
  end,
  expression,    // a: the expression
  sequence,      // a: the expression, b: how many parts are done
  repetition,    // a: the expression, b: how many are done
  value,         // a: the goal of a JSON value
  member_value,  // a: the alternatives of the object before it, b: the state of its key; a colon comes first
  object_first,  // a: the alternatives of the object
  object_key,    // after a comma
  object_after,  // after a member
  array_first,   // a: the facts of the array
  array_item,    // after a comma
  array_after,   // after an item
  unique_first,  // as array_first, where items must differ; a: facts
  unique_item,
  unique_first_at,  // b: where in the text the item begins
  unique_item_at,
  unique_done,     // b: where the item began
  distinct_first,  // as object_first, where names must differ that the schema does not mention
  distinct_key,
  distinct_first_at,  // b: where in the text the name begins
  distinct_key_at,
  distinct_done  // b: where the name began; its member_value comes next
};

struct StackNode {
  StackOp op = StackOp::end;
  uint32_t a = 0;
  uint32_t b = 0;
  StackId next = 0;
  uint32_t depth = 0;
};

// One way on: a lexeme being read, and what follows it.
struct Way {
  ByteStateId state = 0;
  StackId stack = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy sees a comparison with 0
  auto operator<=>(const Way&) const = default;
};

// What a stack begins with: all lexemes that may come next, and whether the text may end.
struct Closure {
  std::vector<Way> ways;
  bool ends = false;
  bool is_cut = false;  // more would open, but the stack is as deep as may be
};

// Not thread-safe. Node 0 is the empty stack: nothing is to come.
class StackStore {
 public:
  static constexpr StackId kEnd = 0;

  explicit StackStore(size_t max_nodes);

  StackId push(StackOp op, uint32_t a, uint32_t b, StackId next);
  const StackNode& at(StackId id) const { return nodes_[id]; }
  // More that is held because of nodes, and counts as they do.
  void hold(size_t num) {
    num_more_ += num;
    check_room();
  }
  size_t size() const { return nodes_.size() + num_more_; }

 private:
  // Of the index of nodes: a table with open addressing that widens by itself. kEnd is a free place.
  struct Part {
    std::vector<StackId> places;
    size_t num_nodes = 0;
  };
  size_t find(const Part& part, const StackNode& node, uint64_t hash) const;
  void widen(Part& part);

  void check_room() const;

  size_t max_nodes_;
  size_t num_more_ = 0;
  Chunked<StackNode> nodes_;
  std::array<Part, 64> parts_;  // by the highest bits of the hash
};

}  // namespace quire

// Immutable stacks of the parts still to come; stacks share equal tails.
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
  expression,    // a: expression
  sequence,      // a: expression, b: number of parts done
  repetition,    // a: expression, b: number of repetitions done
  value,         // a: goal of a JSON value
  member_value,  // a: alternatives of the object before it, b: state of its key; a colon comes first
  object_first,  // a: alternatives of the object
  object_key,    // after a comma
  object_after,  // after a member
  array_first,   // a: facts of the array
  array_item,    // after a comma
  array_after,   // after an item
  unique_first,  // like array_first, if items must differ; a: facts
  unique_item,
  unique_first_at,  // b: text position at which the item begins
  unique_item_at,
  unique_done,     // b: text position at which the item began
  distinct_first,  // like object_first, if names that the schema does not mention must differ
  distinct_key,
  distinct_first_at,  // b: text position at which the name begins
  distinct_key_at,
  distinct_done  // b: text position at which the name began; its member_value is next
};

struct StackNode {
  StackOp op = StackOp::end;
  uint32_t a = 0;
  uint32_t b = 0;
  StackId next = 0;
  uint32_t depth = 0;
};

// One way to continue: the lexeme being read, and the stack after it.
struct Way {
  ByteStateId state = 0;
  StackId stack = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy sees a comparison with 0
  auto operator<=>(const Way&) const = default;
};

// The expansion of a stack: all lexemes that may come next, and whether the text may end.
struct Closure {
  std::vector<Way> ways;
  bool ends = false;
  bool is_cut = false;  // more would open, but the stack has its maximum depth
};

// The store of stack nodes, which are interned. Not thread-safe. Node 0 is the empty stack. An exception
// leaves all nodes as they were.
class StackStore {
 public:
  static constexpr StackId kEnd = 0;

  explicit StackStore(size_t max_nodes);

  StackId push(StackOp op, uint32_t a, uint32_t b, StackId next);
  const StackNode& at(StackId id) const { return nodes_[id]; }
  // Counts further items, held because of nodes, against the limit.
  void hold(size_t num) {
    num_more_ += num;
    check_space();
  }
  size_t size() const { return nodes_.size() + num_more_; }

 private:
  // A part of the node index: a hash table with open addressing. kEnd marks a free slot.
  struct Part {
    std::vector<StackId> places;
    size_t num_nodes = 0;
  };
  size_t find(const Part& part, const StackNode& node, uint64_t hash) const;
  void widen(Part& part);

  void check_space() const;

  size_t max_nodes_;
  size_t num_more_ = 0;
  Chunked<StackNode> nodes_;
  std::array<Part, 64> parts_;  // by the highest bits of the hash
};

}  // namespace quire

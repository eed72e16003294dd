// The variable `loop` of a for loop.
#pragma once

#include "core/chat/objects.h"

namespace quire::chat {

// Interface to render the body of a recursive loop over other items.
class LoopRecursion {
 public:
  virtual ~LoopRecursion() = default;
  virtual Value render(const Value& items, int64_t depth0) = 0;
};

// The state of a for loop. Takes items one by one and looks one item ahead if the template uses `loop.last`
// or `loop.nextitem`.
struct Loop final : Callable {
  Loop(const Value& the_items, Iterator& the_source, int64_t the_depth0, LoopRecursion* the_recursion)
      : items(the_items), source(&the_source), depth0(the_depth0), recursion(the_recursion) {}

  // Sets `out` to the next item; false at the end.
  bool advance(Machine& machine, Value& out);
  Value attribute(Machine& machine, std::string_view name) override;
  Value call(Machine& machine, Arguments& arguments) override;

  bool has_next(Machine& machine);
  int64_t length(Machine& machine);

  Value items;
  Iterator* source;
  int64_t depth0;
  LoopRecursion* recursion;  // null if the loop is not recursive
  int64_t index0 = -1;
  int64_t known_length = -1;
  bool looked_ahead = false;
  bool next_exists = false;
  Value next;
  Value current;
  Value previous;
  Value last_changed;
};

}  // namespace quire::chat

// Any text as a grammar in Lark notation: the result is an Error with a message, or a constraint whose masks
// agree with its steps.
#include <cstdint>

#include "tests/fuzz/constraint_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  quire::fuzz::walk_constraint(quire::ConstraintKind::lark, {reinterpret_cast<const char*>(data), num_bytes});
  return 0;
}

// A host for the tests. Arguments: name of a stage, key, path of a model. Loads the model with all layers on
// the stage and holds them until it is killed.
#include <cstdio>
#include <unistd.h>

#include "tests/core/stages/stage_fixture.h"

int main(int, char** arguments) {
  using namespace quire::testing;
  try {
    const auto model = load_on(arguments[3], {open_cpu(), join_stage(arguments[1], arguments[2])}, {0, 8});
    for (;;) ::pause();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

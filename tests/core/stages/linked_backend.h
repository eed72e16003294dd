// The CPU as a card whose contexts can be linked, within one process: rows travel through queues.
#pragma once

#include <cstdint>

#include "kernels/interface/kernel_table.h"

namespace quire::testing {

enum class LinkFault : int32_t {
  none,
  no_library,     // open_links is refused
  other_library,  // open_links reports another version
  no_first_end,   // create_link is refused for end 0, that of a host
  no_second_end,  // for end 1, that of a stage
  deaf,           // rows that are sent never arrive
};

// Sets what goes wrong from now on.
void set_link_fault(LinkFault fault);
// Returns the number of ends that exist.
int32_t num_live_links();

// Its devices are named "card:N". The backend lives as long as the process.
const kernels::Backend& linked_backend();

}  // namespace quire::testing

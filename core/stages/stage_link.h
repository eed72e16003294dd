// How rows travel between a host and a stage: over their connection, or from card to card.
#pragma once

#include <string>

#include "core/base/clock.h"
#include "core/stages/stage_transport.h"
#include "core/tensor/device.h"

namespace quire {

// A link that is not connected in this time is given up.
inline constexpr Duration kLinkTime = std::chrono::seconds(15);

// What a process offers for rows to travel from card to card.
struct LinkOffer {
  std::string library;  // "NCCL 2.27.3"; empty: nothing
  std::string refusal;  // reason why it offers nothing
  uint64_t bytes = 0;   // device memory of its end; not sent
};

// Opens the library of links unless `transport` is tcp.
LinkOffer offer_links(const Device& device, StageTransport transport);

// Returns why rows cannot travel from card to card between a device of this process and a stage; empty if
// they can. Opens no library if the stage has none.
std::string link_refusal(const Device& home, StageTransport transport, const LinkOffer& stage);

}  // namespace quire

// The choice of how rows travel between a host and its stages.
#pragma once

#include <cstdint>
#include <string_view>

namespace quire {

enum class StageTransport : uint8_t {
  automatic,  // NCCL if both processes have it, otherwise TCP
  tcp,
  nccl,  // nothing else
};

// Reads "auto", "tcp" or "nccl". Throws ErrorCode::invalid_argument for anything else.
StageTransport parse_stage_transport(std::string_view text);

}  // namespace quire

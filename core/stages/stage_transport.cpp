#include "core/stages/stage_transport.h"

#include "core/base/error.h"

namespace quire {

StageTransport parse_stage_transport(std::string_view text) {
  if (text == "auto") return StageTransport::automatic;
  if (text == "tcp") return StageTransport::tcp;
  if (text == "nccl") return StageTransport::nccl;
  throw Error(ErrorCode::invalid_argument, "stage_transport is \"{}\"; use auto, tcp or nccl",
              printable(text))
      .at("stage_transport");
}

}  // namespace quire

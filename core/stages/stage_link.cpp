#include "core/stages/stage_link.h"

#include "core/base/error.h"

namespace quire {

LinkOffer offer_links(const Device& device, StageTransport transport) {
  LinkOffer offer;
  if (transport == StageTransport::tcp) {
    offer.refusal = "stage_transport is tcp";
    return offer;
  }
  kernels::LinkSupport support;
  const kernels::Status opened = device.table().open_links(device.handle(), &support);
  if (opened == kernels::Status::ok) {
    offer.library = support.library;
    offer.bytes = support.bytes;
  } else {
    offer.refusal = opened.words;
  }
  return offer;
}

std::string link_refusal(const Device& home, StageTransport transport, const LinkOffer& stage) {
  if (stage.library.empty()) return "the stage: " + printable(stage.refusal, 256);
  const LinkOffer own = offer_links(home, transport);
  if (own.library.empty()) return "this process: " + own.refusal;
  if (own.library == stage.library) return {};
  return fmt::format("this process has {}, the stage {}", own.library, printable(stage.library));
}

}  // namespace quire

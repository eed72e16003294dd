#include "capi/src/callback_scope.h"

#include "core/base/error.h"

namespace quire::capi {
namespace {

constinit thread_local int callback_depth = 0;

}  // namespace

CallbackScope::CallbackScope() noexcept {
  ++callback_depth;
}
CallbackScope::~CallbackScope() {
  --callback_depth;
}

void refuse_in_callback(std::string_view what) {
  if (callback_depth == 0) return;
  throw Error(ErrorCode::reentrant, "{} inside a callback; call it after the callback has returned", what);
}

}  // namespace quire::capi

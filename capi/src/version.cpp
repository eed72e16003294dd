#include <quire/version.h>

#include "capi/src/guard.h"
#include "core/base/error.h"

using namespace quire::capi;
using quire::Error;
using quire::ErrorCode;

const char* quire_version_string(void) {
  return QUIRE_VERSION_STRING;
}

int32_t quire_abi_check(int32_t major, int32_t minor, quire_error** error) {
  return guard(error, 0, [&] {
    const bool minor_fits =
        QUIRE_ABI_MAJOR == 0 ? minor == QUIRE_ABI_MINOR : minor >= 0 && minor <= QUIRE_ABI_MINOR;
    if (major != QUIRE_ABI_MAJOR || !minor_fits) {
      throw Error(
          ErrorCode::version,
          "the caller was compiled against binary interface {}.{}, but this library ({}) provides {}.{}; "
          "install the library that matches the caller",
          major, minor, QUIRE_VERSION_STRING, QUIRE_ABI_MAJOR, QUIRE_ABI_MINOR);
    }
    return 1;
  });
}

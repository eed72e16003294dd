#include "capi/cli/library.h"

namespace quire::cli {

void throw_if(quire_error* error) {
  if (error == nullptr) return;
  size_t length = 0;
  const char* message = quire_error_message(error, &length);
  const LibraryError failure(quire_error_code(error), std::string(message, length));
  quire_error_free(error);
  throw failure;
}

}  // namespace quire::cli

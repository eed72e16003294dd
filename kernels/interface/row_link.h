// Links: rows that travel between a context of this process and one of another process, from card to card.
#pragma once

#include <cstdint>

namespace quire::kernels {

struct Link;  // one end of a link

// Name of a link, made by one of the two processes. Each of them creates its end of the link with it.
struct LinkId {
  uint8_t bytes[128] = {};
};

struct LinkSupport {
  char library[32] = {};  // "NCCL 2.27.3"; both processes must have the same
  uint64_t bytes = 0;     // device memory of one end of a link
};

enum class LinkState : int32_t {
  busy = 0,    // it is being connected, or a transfer is being issued: nothing may be issued to the context
  issued = 1,  // a transfer was issued; later work of the context follows it
  done = 2,    // it is connected, and all transfers are over
};

}  // namespace quire::kernels

// Links of rows to contexts of other processes, by NCCL.
#pragma once

#include "kernels/cuda/step/context.h"

namespace quire::kernels {

// Device memory that NCCL takes for one end of a link, a communicator of two ranks with one channel: 22 to 24
// MiB between two H200 by NCCL 2.28.3. The first link of a process takes 436 MiB more, which is not counted,
// like the memory of CUDA itself.
constexpr uint64_t kLinkBytes = uint64_t{32} << 20;

// Table entries.
Status open_links(Device* device, LinkSupport* support);
Status make_link_id(Device* device, LinkId* id);
Status create_link(Context* context, const LinkId* id, int32_t end, Link** link);
Status poll_link(Link* link, LinkState* state);
Status send_by_link(Link* link, const float* device_rows, int32_t rows, int32_t columns);
Status receive_by_link(Link* link, float* device_rows, int32_t rows, int32_t columns);
void release_link(Link* link);

}  // namespace quire::kernels

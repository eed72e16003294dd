#include "kernels/cuda/link/link.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "kernels/cuda/collective/communicator.h"

namespace quire::kernels {

// A communicator does not block, so each call may go on in a thread of NCCL. Until that has ended, nothing
// else may be issued to the stream.
enum class LinkPhase : int32_t {
  connecting,
  probing,  // one number travels in each direction, for which NCCL takes the memory of its connections
  issuing,
  running,
  idle,
};

struct Link {
  Context* context = nullptr;
  int32_t end = 0;
  NcclComm* comm = nullptr;
  LinkPhase phase = LinkPhase::connecting;
  bool is_connected = false;
  cudaEvent_t over = nullptr;  // recorded after a transfer
  bool is_counted = false;     // the meter counts its memory

  const NcclLibrary& nccl() const { return context->device->nccl; }
  int peer() const { return 1 - end; }
};

namespace {

Status connect(Link& link, const LinkId& id) {
  Device& device = *link.context->device;
  QUIRE_RETURN_IF_FAILED(device.nccl.open());
  link.is_counted = device.meter->take(kLinkBytes);
  if (!link.is_counted)
    return device.fail(Status::out_of_memory,
                       "linking: " + std::to_string(kLinkBytes) + " bytes of device memory needed");
  QUIRE_RETURN_IF_FAILED(
      device.check(cudaEventCreateWithFlags(&link.over, cudaEventDisableTiming), "linking"));
  NcclUniqueId name;
  static_assert(sizeof name.internal == sizeof id.bytes);
  std::memcpy(name.internal, id.bytes, sizeof name.internal);
  NcclConfig config;
  config.blocking = 0;
  config.min_ctas = config.max_ctas = 1;
  return link.nccl().check(link.nccl().call().init_rank(&link.comm, 2, name, link.end, &config),
                           Status::unsupported, "linking");
}

// The two numbers lie in scratch memory of the context.
Status probe(Link& link) {
  const NcclFunctions& call = link.nccl().call();
  cudaStream_t const stream = link.context->stream;
  float* const numbers = link.context->partials;
  QUIRE_RETURN_IF_FAILED(
      link.context->device->check(cudaMemsetAsync(numbers, 0, 2 * sizeof(float), stream), "linking"));
  NcclResult result = call.group_start();
  if (result != kNcclSuccess) return link.nccl().check(result, Status::unsupported, "linking");
  const NcclResult sent = call.send(numbers, 1, kNcclFloat32, link.peer(), link.comm, stream);
  const NcclResult received = call.receive(numbers + 1, 1, kNcclFloat32, link.peer(), link.comm, stream);
  result = call.group_end();
  QUIRE_RETURN_IF_FAILED(link.nccl().check(sent, Status::unsupported, "linking"));
  QUIRE_RETURN_IF_FAILED(link.nccl().check(received, Status::unsupported, "linking"));
  QUIRE_RETURN_IF_FAILED(link.nccl().check(result, Status::unsupported, "linking"));
  link.phase = LinkPhase::probing;
  return Status::ok;
}

// Goes on after the work of NCCL's thread has ended.
Status advance(Link& link) {
  if (link.phase == LinkPhase::connecting) return probe(link);
  link.phase = LinkPhase::running;
  return link.context->device->check(cudaEventRecord(link.over, link.context->stream), "transferring rows");
}

// Looks whether a transfer is over.
Status look(Link& link) {
  const cudaError_t error = cudaEventQuery(link.over);
  if (error == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return Status::ok;
  }
  QUIRE_RETURN_IF_FAILED(link.context->device->check(error, "transferring rows"));
  link.phase = LinkPhase::idle;
  link.is_connected = true;
  return Status::ok;
}

// Prepares for a transfer.
Status begin_transfer(Link& link, int32_t rows, int32_t columns) {
  Device& device = *link.context->device;
  QUIRE_RETURN_IF_FAILED(device.enter());
  if (!link.is_connected || link.phase == LinkPhase::issuing || rows < 0 || columns < 0)
    return device.fail(Status::invalid_argument,
                       "a link transfers one thing at a time, after it is connected");
  return run_delayed_gather(*link.context);
}

Status end_transfer(Link& link, NcclResult result) {
  link.phase = LinkPhase::issuing;
  return link.nccl().check(result, Status::device_lost, "transferring rows");
}

size_t count_of(int32_t rows, int32_t columns) {
  return static_cast<size_t>(rows) * static_cast<size_t>(columns);
}

}  // namespace

Status open_links(Device* device, LinkSupport* support) {
  QUIRE_RETURN_IF_FAILED(device->nccl.open());
  *support = {};
  std::snprintf(support->library, sizeof support->library, "%s", device->nccl.name().c_str());
  support->bytes = kLinkBytes;
  return Status::ok;
}

Status make_link_id(Device* device, LinkId* id) {
  QUIRE_RETURN_IF_FAILED(device->enter());
  QUIRE_RETURN_IF_FAILED(device->nccl.open());
  NcclUniqueId name;
  const NcclResult result = device->nccl.call().get_unique_id(&name);
  std::memcpy(id->bytes, name.internal, sizeof id->bytes);
  return device->nccl.check(result, Status::unsupported, "naming a link");
}

Status create_link(Context* context, const LinkId* id, int32_t end, Link** link) {
  *link = nullptr;
  QUIRE_RETURN_IF_FAILED(context->device->enter());
  std::unique_ptr<Link> made(new (std::nothrow) Link);
  if (made == nullptr) return Device::fail(Status::out_of_memory, "linking: out of host memory");
  made->context = context;
  made->end = end;
  if (const Status s = connect(*made, *id); s != Status::ok) {
    release_link(made.release());
    return s;
  }
  *link = made.release();
  return Status::ok;
}

Status poll_link(Link* link, LinkState* state) {
  Link& l = *link;
  QUIRE_RETURN_IF_FAILED(l.context->device->enter());
  NcclResult background = kNcclSuccess;
  const NcclResult asked = l.nccl().call().get_async_error(l.comm, &background);
  const Status::Code code = l.is_connected ? Status::device_lost : Status::unsupported;
  const char* const doing = l.is_connected ? "transferring rows" : "linking";
  QUIRE_RETURN_IF_FAILED(l.nccl().check(asked, code, doing));
  QUIRE_RETURN_IF_FAILED(l.nccl().check(background, code, doing));
  const bool is_busy = background == kNcclInProgress || asked == kNcclInProgress;
  if (!is_busy && l.phase < LinkPhase::running) QUIRE_RETURN_IF_FAILED(advance(l));
  if (!is_busy && l.phase == LinkPhase::running) QUIRE_RETURN_IF_FAILED(look(l));
  *state = l.phase == LinkPhase::idle                        ? LinkState::done
           : l.phase == LinkPhase::running && l.is_connected ? LinkState::issued
                                                             : LinkState::busy;
  return Status::ok;
}

Status send_by_link(Link* link, const float* device_rows, int32_t rows, int32_t columns) {
  QUIRE_RETURN_IF_FAILED(begin_transfer(*link, rows, columns));
  return end_transfer(*link, link->nccl().call().send(device_rows, count_of(rows, columns), kNcclFloat32,
                                                      link->peer(), link->comm, link->context->stream));
}

Status receive_by_link(Link* link, float* device_rows, int32_t rows, int32_t columns) {
  QUIRE_RETURN_IF_FAILED(begin_transfer(*link, rows, columns));
  return end_transfer(*link, link->nccl().call().receive(device_rows, count_of(rows, columns), kNcclFloat32,
                                                         link->peer(), link->comm, link->context->stream));
}

// Aborts also what is over: ending a communicator in order needs the other end.
void release_link(Link* link) {
  if (link == nullptr) return;
  Device& device = *link->context->device;
  static_cast<void>(cudaSetDevice(device.ordinal));
  if (link->comm != nullptr) static_cast<void>(link->nccl().call().abort(link->comm));
  static_cast<void>(cudaGetLastError());
  if (link->over != nullptr) static_cast<void>(cudaEventDestroy(link->over));
  if (link->is_counted) device.meter->give_back(kLinkBytes);
  delete link;
}

}  // namespace quire::kernels

// Transfer of rows between the devices of a model (pipeline parallelism): from host memory, and between
// cards.
#include <cstring>

#include "kernels/cuda/collective/communicator.h"
#include "kernels/cuda/step/context.h"

namespace quire::kernels {
namespace {

// Gives the cards of two contexts access to each other's memory if the machine allows it. Otherwise copies go
// through the host, so a refusal is no failure.
void connect(Context& to, const Context& from) {
  if (to.connected == from.device) return;
  to.connected = from.device;
  static_cast<void>(enable_peer_access(*to.device, *from.device));
}

}  // namespace

Status write_rows(Context* context, const float* host, int32_t rows, int32_t columns, float* device_rows) {
  Context& c = *context;
  if (const Status s = c.device->enter(); s != Status::ok) return s;
  const size_t count = static_cast<size_t>(rows) * static_cast<size_t>(columns);
  if (count > c.transfer_floats)
    return c.device->fail(Status::invalid_argument,
                          "write_rows: more rows than the limits of the context allow");
  cudaError_t error = cudaEventSynchronize(c.transfer_sent);
  if (error != cudaSuccess) return c.device->check(error, "transferring rows");
  if (count > 0) std::memcpy(c.transfer_rows, host, count * sizeof(float));
  error =
      cudaMemcpyAsync(device_rows, c.transfer_rows, count * sizeof(float), cudaMemcpyHostToDevice, c.stream);
  if (error == cudaSuccess) error = cudaEventRecord(c.transfer_sent, c.stream);
  return c.device->check(error, "transferring rows");
}

// The copy runs on the receiver's stream, after the work that the sender has queued; later work of the sender
// waits for it.
Status receive_rows(Context* context, float* device_rows, Context* from, const float* from_rows, int32_t rows,
                    int32_t columns) {
  Context& to = *context;
  Context& sender = *from;
  const size_t bytes = static_cast<size_t>(rows) * static_cast<size_t>(columns) * sizeof(float);
  QUIRE_RETURN_IF_FAILED(run_delayed_gather(to));
  if (sender.device->enter() != Status::ok)
    return to.device->fail(Status::device_lost,
                           "the card " + sender.device->name + " is lost, which computes the earlier layers");
  QUIRE_RETURN_IF_FAILED(run_delayed_gather(sender));
  cudaError_t error = cudaEventRecord(sender.rows_ready, sender.stream);
  if (error != cudaSuccess) return to.device->check(error, "transferring rows");
  if (const Status s = to.device->enter(); s != Status::ok) return s;
  connect(to, sender);
  error = cudaStreamWaitEvent(to.stream, sender.rows_ready, 0);
  if (error == cudaSuccess)
    error = cudaMemcpyPeerAsync(device_rows, to.device->ordinal, from_rows, sender.device->ordinal, bytes,
                                to.stream);
  if (error == cudaSuccess) error = cudaEventRecord(to.rows_received, to.stream);
  if (error == cudaSuccess) error = cudaStreamWaitEvent(sender.stream, to.rows_received, 0);
  return to.device->check(error, "transferring rows");
}

}  // namespace quire::kernels

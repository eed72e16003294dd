// Communicator of the shards of a stage (tensor parallelism), on several cards or on one.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/cuda/step/context.h"

namespace quire::kernels {

struct Communicator {
  explicit Communicator(std::vector<Context*> shards) : contexts(std::move(shards)) {}

  // Ends the gathers of all shards until `resume`, or for ever after a loss. Any thread.
  void interrupt();
  void lose(const std::string& words);
  // Returns device_lost or interrupted if gathers cannot continue.
  Status status();

  const std::vector<Context*> contexts;
  GatherArguments arguments;  // what is the same for all gathers and shards
  InboxLayout layout;
  std::atomic<bool> interrupted{false};
  std::atomic<bool> lost{false};
  std::mutex loss_mutex;
  std::string loss;  // guarded by loss_mutex
};

// Lets the kernels of `device` access the memory of `other`. Returns false if the machine does not allow it.
bool enable_peer_access(const Device& device, const Device& other);

// Sets the memory of a shard's gathers to the state before the first one, in the order of its stream.
cudaError_t clear_gathers(Context& context);

// Waits for an event of a context with shards. Fails with device_lost if the card of another shard is lost,
// or if a gather waited too long.
Status wait_with_shards(Context& context, cudaEvent_t event);

// Runs a gather that has been put off (all_gather puts it off if a norm may read its result). Every entry of
// the table that issues work calls it first. Only entries that call `normalize` do not.
Status run_delayed_gather(Context& context);
// Returns true if `normalize` gathers and normalizes by one kernel.
bool gathers_within(const Context& context, const NormParams& norm);
// Normalizes rows; the result of a gather that has been put off by the kernel that gathers it, if it can.
// `place`: as for launch_norm.
Status normalize(Context& context, const NormParams& norm, const int32_t* place);

// Lets the peers of a shard know that its step waits for weights that return from host memory, or no longer.
Status announce_weights(Context& context, bool awaits);

// Table entries.
int32_t reaches(Device* device, Device* other);
Status connect_shards(Context* const* contexts, int32_t num_shards, Communicator** communicator);
void release_communicator(Communicator* communicator);
Status all_gather(Context* context, const AllGatherParams* params);
void interrupt_shards(Communicator* communicator);
void resume_shards(Communicator* communicator);

}  // namespace quire::kernels

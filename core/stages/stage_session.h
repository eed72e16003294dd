// Requests of one connection of a host to a stage.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file_system.h"
#include "core/base/log.h"
#include "core/base/thread.h"
#include "core/models/model_source.h"
#include "core/net/channel.h"
#include "core/stages/stage_cache.h"

namespace quire {

// What the connections of a stage share. Thread-safe.
struct StageState {
  std::vector<std::shared_ptr<Device>> devices;  // one, or one for each shard
  int32_t num_shards = 1;
  std::shared_ptr<StageMemory> memory;
  LinkOffer links;     // of the first device
  std::string models;  // directory of the models; empty: only synthetic ones
  const FileSystem* files = nullptr;
  const ThreadFactory* threads = nullptr;
  Log log;
  LayerRegistry registry;
  // Held while a cache computes: the devices compute for one cache at a time.
  Mutex compute_mutex;
};

// Answers the requests of a host until it leaves or is lost, and frees all that it had. For one thread.
class StageSession {
 public:
  StageSession(StageState& state, Channel& channel);
  ~StageSession();

  // Returns why the host has left.
  std::string serve();

 private:
  void answer(gsl::span<const std::byte> message);
  // Carries a request out and writes the fields of the answer. Returns bytes that follow them, which are
  // valid until the next call.
  gsl::span<const std::byte> carry_out(StageRequest request, WireReader& wire, WireWriter& answer);
  gsl::span<const std::byte> carry_out_in_cache(StageRequest request, WireReader& wire);
  void carry_out_by_link(StageRequest request, WireReader& wire);
  StageDescription describe() const;
  BuildAnswer build(const BuildRequest& request);
  std::shared_ptr<const Transformer> build_layers(const BuildRequest& request, ModelSource& source,
                                                  BuildMode mode) const;
  CachePlanAnswer plan(const CacheRequest& request) const;
  StageCache& cache();

  StageState& state_;
  Channel& channel_;
  std::map<uint64_t, std::shared_ptr<const StageLayers>> layers_;  // that this connection keeps
  std::unique_ptr<StageCache> cache_;
  std::vector<std::byte> stored_;  // page or state of the last answer
};

}  // namespace quire

#include "core/stages/stage_session.h"

#include <algorithm>
#include <thread>

#include "core/base/error.h"
#include "core/models/memory_plan.h"
#include "core/models/transformer_builder.h"
#include "core/stages/model_path.h"

namespace quire {
namespace {

constexpr size_t kMostLayers = 256;  // builds of one connection that exist at a time
constexpr size_t kMostErrorBytes = 1024;
constexpr int32_t kMostLoadThreads = 8;

// See num_load_helpers of resident_model.cpp: on the CPU one thread reads ahead of the others.
int32_t num_helpers(const Device& device) {
  if (device.is_host()) return device.info().num_units > 1 ? 1 : 0;
  return std::clamp(static_cast<int32_t>(std::thread::hardware_concurrency()), 1, kMostLoadThreads) - 1;
}

ErrorAnswer answer_of(const std::exception& exception) {
  ErrorAnswer answer{
      static_cast<int32_t>(ErrorCode::internal), printable(exception.what(), kMostErrorBytes), {}};
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr)
    answer.code = static_cast<int32_t>(ErrorCode::out_of_memory);
  if (const auto* error = dynamic_cast<const Error*>(&exception)) {
    answer.code = static_cast<int32_t>(error->code());
    answer.parameter = error->parameter();
  }
  return answer;
}

// Returns the bytes of all shards of a stage.
RemoteWeightBytes weight_bytes(const Transformer& stage) {
  RemoteWeightBytes bytes;
  bytes.ropes =
      stage.sum_over_shards([](const Transformer& shard) { return shard.stages.front().rope_bytes(); });
  for (size_t i = 0; i < static_cast<size_t>(stage.stages.front().num_layers); ++i)
    bytes.layers.push_back(
        stage.sum_over_shards([i](const Transformer& shard) { return shard.own_layer_bytes(0, i); }));
  bytes.step = stage.step_bytes(1);
  return bytes;
}

template <typename Fields>
Fields read(WireReader& wire) {
  Fields fields;
  fields.fields(wire);
  wire.finish();
  return fields;
}

}  // namespace

StageSession::StageSession(StageState& state, Channel& channel) : state_(state), channel_(channel) {}

StageSession::~StageSession() = default;

std::string StageSession::serve() {
  try {
    for (;;) answer(channel_.receive());
  } catch (const std::exception& loss) {
    return loss.what();
  }
}

void StageSession::answer(gsl::span<const std::byte> message) {
  WireReader wire(message);
  WireWriter fields;
  gsl::span<const std::byte> rest;
  bool is_done = true;
  try {
    StageRequest request{};
    wire(request);
    rest = carry_out(request, wire, fields);
  } catch (const std::exception& failure) {
    is_done = false;
    fields.clear();
    answer_of(failure).fields(fields);
  }
  const uint64_t free_bytes = state_.memory->free_bytes();
  WireWriter head;
  head(is_done, free_bytes);
  channel_.send({head.bytes(), fields.bytes(), is_done ? rest : gsl::span<const std::byte>()});
}

gsl::span<const std::byte> StageSession::carry_out(StageRequest request, WireReader& wire,
                                                   WireWriter& answer) {
  switch (request) {
    case StageRequest::describe:
      wire.finish();
      describe().fields(answer);
      return {};
    case StageRequest::build:
      build(read<BuildRequest>(wire)).fields(answer);
      return {};
    case StageRequest::plan_cache:
      plan(read<CacheRequest>(wire)).fields(answer);
      return {};
    case StageRequest::drop: {
      uint64_t id = 0;
      wire(id);
      layers_.erase(id);
      return {};
    }
    case StageRequest::create_executor: {
      auto sizes = read<CacheRequest>(wire);
      sizes.options.threads = state_.threads;
      cache_ = nullptr;
      cache_ = std::make_unique<StageCache>(state_.registry.at(sizes.id), sizes.options, *state_.memory);
      channel_.set_max_message(cache_->largest_message());
      cache_->stored_bytes().fields(answer);
      return {};
    }
    case StageRequest::close:
      cache_ = nullptr;
      layers_.clear();
      return {};
    default:
      return carry_out_in_cache(request, wire);
  }
}

// Carries out the requests of which the answer has no fields.
gsl::span<const std::byte> StageSession::carry_out_in_cache(StageRequest request, WireReader& wire) {
  switch (request) {
    case StageRequest::acquire_weights: {
      uint64_t id = 0;
      wire(id);
      const MutexLock lock(state_.compute_mutex);
      cache().acquire_weights(state_.registry.at(id));
      return {};
    }
    case StageRequest::release_weights: {
      const MutexLock lock(state_.compute_mutex);
      cache().release_weights();
      return {};
    }
    case StageRequest::forward: {
      const MutexLock lock(state_.compute_mutex);
      return gsl::as_bytes(cache().forward(wire));
    }
    case StageRequest::set_num_pages: {
      int32_t num_pages = 0;
      wire(num_pages);
      cache().set_num_pages(num_pages);
      return {};
    }
    case StageRequest::read_page:
    case StageRequest::read_state:
      stored_ = cache().read(request, read<StoredPart>(wire));
      return stored_;
    case StageRequest::write_page:
    case StageRequest::write_state: {
      StoredPart part;
      part.fields(wire);
      cache().write(request, part, wire.rest());
      return {};
    }
    default:
      carry_out_by_link(request, wire);
      return {};
  }
}

// Rows travel while other caches compute.
void StageSession::carry_out_by_link(StageRequest request, WireReader& wire) {
  switch (request) {
    case StageRequest::begin_link:
      if (state_.links.library.empty()) throw Error(ErrorCode::unsupported, "{}", state_.links.refusal);
      return cache().begin_link(read<LinkRequest>(wire));
    case StageRequest::finish_link:
      return cache().finish_link(channel_.is_lost());
    case StageRequest::drop_link:
      return cache().drop_link();
    case StageRequest::forward_linked: {
      cache().receive_rows(wire, channel_.is_lost());
      {
        const MutexLock lock(state_.compute_mutex);
        cache().compute_received();
      }
      return cache().send_rows(channel_.is_lost());
    }
    default:
      throw Error(ErrorCode::format, "there is no request of kind {}", static_cast<int32_t>(request));
  }
}

StageCache& StageSession::cache() {
  if (cache_ == nullptr) throw Error(ErrorCode::format, "the connection has no cache");
  return *cache_;
}

StageDescription StageSession::describe() const {
  const Device& device = *state_.devices.front();
  const kernels::DeviceInfo info = device.info();
  const auto num_devices = gsl::narrow<int32_t>(state_.devices.size());
  StageDescription description;
  description.version = library_version();
  // The name is a part of what names stored pages (model_fingerprint), and shards store a page in another
  // order.
  description.table = device.table().name;
  if (state_.num_shards > 1) description.table += fmt::format(" in {} shards", state_.num_shards);
  description.device = num_devices > 1 ? fmt::format("{} x {}", num_devices, info.name) : info.name;
  description.detail = info.detail;
  description.capabilities = device.table().capabilities;
  description.mechanisms = device.table().mechanisms;
  description.activation_dtype = device.table().activation_dtype;
  description.total_bytes = state_.memory->total_bytes();
  description.num_units = num_devices * info.num_units;
  description.links = state_.links;
  return description;
}

std::shared_ptr<const Transformer> StageSession::build_layers(const BuildRequest& request,
                                                              ModelSource& source, BuildMode mode) const {
  BuildOptions options;
  options.mode = mode;
  options.threads = state_.threads;
  options.num_helpers = num_helpers(*state_.devices.front());
  options.num_shards = state_.num_shards;
  options.activations = static_cast<kernels::ActivationDtype>(request.activations);
  const bool is_plan = mode == BuildMode::plan;
  LoadMonitor monitor;
  monitor.cancel = &channel_.is_lost();
  const auto weights = source.weights(is_plan ? ReadScope::layout : ReadScope::all, monitor);
  auto stage = build_inner_stage(source.config(), *weights, state_.devices,
                                 {0, request.first_layer, request.end_layer}, options);
  weights->finish();
  return stage;
}

BuildAnswer StageSession::build(const BuildRequest& request) {
  if (layers_.size() >= kMostLayers)
    throw Error(ErrorCode::capacity, "the connection has {} builds; free some", layers_.size());
  if (request.activations < 0 || request.activations > static_cast<int32_t>(kernels::ActivationDtype::f8))
    throw Error(ErrorCode::invalid_argument, "activation_dtype {} is unknown", request.activations);
  const std::string path = find_model(*state_.files, state_.models, request.path);
  const std::shared_ptr<ModelSource> source = open_model_source(*state_.files, path);
  if (source->identity() != request.identity) {
    throw Error(ErrorCode::format,
                "{} of the stage has other files than the host's {}; copy the host's files there", path,
                printable(request.path))
        .at("path");
  }
  auto layers = std::make_shared<StageLayers>();
  layers->request = request;
  layers->transformer = build_layers(request, *source, BuildMode::plan);
  BuildAnswer answer;
  answer.bytes = weight_bytes(*layers->transformer);
  if (!request.is_plan) {
    layers->memory =
        state_.memory->reserve(answer.bytes.layer_sum() + answer.bytes.ropes, "the weights of " + path);
    layers->transformer = build_layers(request, *source, BuildMode::prepare);
    state_.log(LogLevel::info, "a host has loaded layers {} to {} of {}", request.first_layer,
               request.end_layer - 1, path);
  }
  answer.id = state_.registry.add(layers);
  layers_.emplace(answer.id, std::move(layers));
  return answer;
}

CachePlanAnswer StageSession::plan(const CacheRequest& request) const {
  require_cache_sizes(request.options);
  CachePlanAnswer answer;
  answer.bytes = plan_inner_stage(*state_.registry.at(request.id)->transformer, request.options);
  for (const RemoteCacheBytes::Layer& layer : answer.bytes.layers) {
    answer.kv.push_back(layer.kv);
    answer.states.push_back(layer.states);
  }
  return answer;
}

}  // namespace quire

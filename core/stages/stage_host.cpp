#include "core/stages/stage_host.h"

#include <cstring>
#include <exception>
#include <utility>

#include "core/base/error.h"
#include "core/base/signal_blocker.h"
#include "core/models/transformer_executor.h"
#include "core/stages/stage_device.h"
#include "core/tensor/row_link.h"

namespace quire {
namespace {

constexpr std::string_view kScheme = "tcp://";

struct NoFields {
  template <typename Wire>
  void fields(Wire&) {}
};

struct IdField {
  uint64_t id = 0;
  template <typename Wire>
  void fields(Wire& wire) {
    wire(id);
  }
};

struct PagesField {
  int32_t num_pages = 0;
  template <typename Wire>
  void fields(Wire& wire) {
    wire(num_pages);
  }
};

// Creates the host's end of a link, asks the stage to connect its own end, and connects both at the same
// time, because each end waits for the other. Returns the host's end when the stage has answered. If the
// host's end cannot be created, the stage is not asked, and so does not wait for it.
std::unique_ptr<RowLink> connect_ends(StageConnection& connection, const DeviceContext& home,
                                      const kernels::LinkId& id, const ChannelWait& wait) {
  auto link = std::make_unique<RowLink>(home, id, 0);
  std::exception_ptr failure;
  connection.begin(StageRequest::finish_link, {});
  try {
    link->connect({connection.is_lost(), kLinkTime});
  } catch (const Error&) {
    failure = std::current_exception();
    link = nullptr;
  }
  try {
    connection.end(wait);
  } catch (const Error&) {
    if (failure == nullptr || connection.is_lost()) throw;
  }
  if (failure != nullptr) std::rethrow_exception(failure);
  return link;
}

// Connects a context with the card of the stage. Throws why not, after both sides have given it up.
std::unique_ptr<RowLink> connect_link(StageConnection& connection, const DeviceContext& home) {
  const SignalBlocker blocked;  // for the threads of NCCL
  kernels::LinkId id;
  home.check(home.table().make_link_id(home.device()->handle(), &id), "naming a link");
  const ChannelWait wait{nullptr, steady_clock().now() + 3 * kLinkTime};
  connection.ask<NoFields>(StageRequest::begin_link, LinkRequest{{std::begin(id.bytes), std::end(id.bytes)}},
                           wait);
  try {
    return connect_ends(connection, home, id, wait);
  } catch (const Error&) {
    if (!connection.is_lost()) connection.ask<NoFields>(StageRequest::drop_link, NoFields(), wait);
    throw;
  }
}

class StageExecutor final : public RemoteExecutor {
 public:
  StageExecutor(std::shared_ptr<StageConnection> connection, std::shared_ptr<StageCounters> counters,
                const CacheRequest& request)
      : connection_(std::move(connection)),
        counters_(std::move(counters)),
        stored_(connection_->ask<ExecutorAnswer>(StageRequest::create_executor, request)) {
    stored_.page_bytes.resize(1 + request.options.kv.windows.size());
  }
  // Waits for the stage, so that its memory is free afterwards.
  ~StageExecutor() override {
    try {
      connection_->ask<NoFields>(StageRequest::close, NoFields());
    } catch (const std::exception&) {  // a lost stage has freed it by itself
    }
  }

  // Connects the cards, unless there is a reason why not. Throws ErrorCode::unsupported if that was demanded.
  void choose_transport(StageHost& host, const DeviceContext& home, std::string refusal) {
    try {
      if (refusal.empty()) link_ = connect_link(*connection_, home);
    } catch (const Error& error) {
      if (connection_->is_lost()) connection_->lose_link(error.what());
      refusal = error.what();
      host.refuse_links(refusal);
    }
    is_linked_ = link_ != nullptr;
    counters_->set_transport(is_linked_ ? "rows by " + offer_links(*home.device(), host.transport()).library
                                        : fmt::format("rows by TCP ({})", refusal));
    if (is_linked_ || host.transport() != StageTransport::nccl) return;
    throw Error(ErrorCode::unsupported, "stage_transport is nccl, but rows of {} can only travel by TCP: {}",
                host.name(), refusal)
        .at("stage_transport");
  }

  void acquire_weights(const RemoteLayers& layers) override;
  void release_weights() override { connection_->ask<NoFields>(StageRequest::release_weights, NoFields()); }

  void forward(const Batch& batch, gsl::span<float> rows) override {
    const TimePoint begin = steady_clock().now();
    wire_.clear();
    write_batch(batch, wire_);
    const auto bytes = gsl::as_writable_bytes(rows);
    const StageAnswer answer =
        connection_->call(StageRequest::forward, wire_.bytes(), bytes, kPlainMessageBytes + bytes.size());
    copy(answer, bytes);
    count_pass(begin);
  }
  bool is_linked() const override { return is_linked_; }
  void forward_linked(const Batch& batch, float* device_rows, int32_t columns) override {
    const TimePoint begin = steady_clock().now();
    wire_.clear();
    write_batch(batch, wire_);
    // The stage receives before it computes and sends before it answers. Its rows are received after the
    // answer, so that the card of this process waits for no computation.
    connection_->begin(StageRequest::forward_linked, wire_.bytes());
    over_link(
        [&](RowLink& link) { link.send(device_rows, batch.num_tokens(), columns, connection_->is_lost()); });
    try {
      connection_->end();
    } catch (const Error&) {  // rows may have been sent that the stage has not received
      link_ = nullptr;
      connection_->give_up();
      throw;
    }
    over_link([&](RowLink& link) {
      link.receive(device_rows, batch.num_tokens(), columns, connection_->is_lost());
    });
    count_pass(begin);
    ++counters_->num_linked_passes;
  }
  void set_num_pages(int32_t num_pages) override {
    connection_->ask<NoFields>(StageRequest::set_num_pages, PagesField{num_pages});
  }

  uint64_t page_bytes(int32_t table) const override { return stored_.page_bytes[static_cast<size_t>(table)]; }
  uint64_t state_bytes() const override { return stored_.state_bytes; }
  void read_page(int32_t table, PageId page, gsl::span<std::byte> out) override {
    read(StageRequest::read_page, {table, page.value}, out);
  }
  void write_page(int32_t table, PageId page, gsl::span<const std::byte> bytes) override {
    write(StageRequest::write_page, {table, page.value}, bytes);
  }
  void read_state(int32_t slot, int32_t bank, gsl::span<std::byte> out) override {
    read(StageRequest::read_state, {slot, bank}, out);
  }
  void write_state(int32_t slot, int32_t bank, gsl::span<const std::byte> bytes) override {
    write(StageRequest::write_state, {slot, bank}, bytes);
  }

 private:
  // Runs `transfer` with the link. Ends the link and the connection if that fails. Without a link the
  // connection has ended, and the next call reports it.
  template <typename Transfer>
  void over_link(Transfer transfer) {
    if (link_ == nullptr) return;
    try {
      transfer(*link_);
    } catch (const Error& error) {
      link_ = nullptr;
      connection_->lose_link(error.what());
    }
  }
  void count_pass(TimePoint begin) {
    ++counters_->num_passes;
    counters_->pass_nanoseconds += static_cast<uint64_t>((steady_clock().now() - begin).count());
  }
  void copy(const StageAnswer& answer, gsl::span<std::byte> out) {
    if (answer.bytes().size() != out.size()) connection_->lose("an answer of another size");
    std::memcpy(out.data(), answer.bytes().data(), out.size());
  }
  void read(StageRequest request, StoredPart part, gsl::span<std::byte> out) {
    wire_.clear();
    part.fields(wire_);
    copy(connection_->call(request, wire_.bytes(), {}, kPlainMessageBytes + out.size()), out);
  }
  void write(StageRequest request, StoredPart part, gsl::span<const std::byte> bytes) {
    wire_.clear();
    part.fields(wire_);
    connection_->call(request, wire_.bytes(), bytes);
  }

  const std::shared_ptr<StageConnection> connection_;
  const std::shared_ptr<StageCounters> counters_;
  ExecutorAnswer stored_;
  WireWriter wire_;
  bool is_linked_ = false;
  std::unique_ptr<RowLink> link_;  // null: there is none, or it has failed
};

// Layers of a stage. Planned ones share the connection of the stage's device.
class StageLayersOfHost final : public RemoteLayers {
 public:
  StageLayersOfHost(std::shared_ptr<StageHost> host, std::shared_ptr<StageConnection> connection,
                    std::shared_ptr<StageCounters> counters, BuildAnswer built)
      : host_(std::move(host)),
        connection_(std::move(connection)),
        counters_(std::move(counters)),
        built_(std::move(built)) {}
  // Waits for the stage, so that its memory is free afterwards.
  ~StageLayersOfHost() override {
    try {
      connection_->ask<NoFields>(StageRequest::drop, IdField{built_.id});
    } catch (const std::exception&) {  // a lost stage has freed them by itself
    }
  }

  uint64_t id() const { return built_.id; }
  const RemoteWeightBytes& bytes() const override { return built_.bytes; }

  uint64_t link_bytes(const Device& home) const override {
    return host_->link_refusal(home).empty() ? offer_links(home, host_->transport()).bytes : 0;
  }
  RemoteCacheBytes plan_cache(const TransformerExecutorOptions& options, bool is_linked) const override {
    CacheRequest request{built_.id, options};
    request.options.is_linked = is_linked;
    auto plan = connection_->ask<CachePlanAnswer>(StageRequest::plan_cache, request);
    if (plan.kv.size() != built_.bytes.layers.size() || plan.states.size() != plan.kv.size())
      connection_->lose("a plan of other layers");
    for (size_t i = 0; i < plan.kv.size(); ++i) plan.bytes.layers.push_back({plan.kv[i], plan.states[i]});
    return plan.bytes;
  }

  std::unique_ptr<RemoteExecutor> create_executor(const TransformerExecutorOptions& options,
                                                  const DeviceContext& home) const override {
    const std::string refusal = host_->link_refusal(*home.device());
    CacheRequest request{built_.id, options};
    request.options.is_linked = refusal.empty();
    auto executor = std::make_unique<StageExecutor>(host_->connect(), counters_, request);
    executor->choose_transport(*host_, home, refusal);
    return executor;
  }

 private:
  const std::shared_ptr<StageHost> host_;
  const std::shared_ptr<StageConnection> connection_;
  const std::shared_ptr<StageCounters> counters_;
  const BuildAnswer built_;
};

void StageExecutor::acquire_weights(const RemoteLayers& layers) {
  const auto& of_stage = dynamic_cast<const StageLayersOfHost&>(layers);
  connection_->ask<NoFields>(StageRequest::acquire_weights, IdField{of_stage.id()});
}

void require_same_release(const std::string& name, const StageDescription& description) {
  if (description.version == library_version()) return;
  throw Error(ErrorCode::version,
              "the stage {} has version {} of Quire, this process has {}; install one release on both", name,
              printable(description.version), library_version())
      .at("device");
}

bool is_same_device(const StageDescription& a, const StageDescription& b) {
  return a.table == b.table && a.capabilities == b.capabilities && a.mechanisms == b.mechanisms &&
         a.activation_dtype == b.activation_dtype;
}

}  // namespace

bool is_stage_name(std::string_view name) {
  return name.starts_with(kScheme);
}

std::shared_ptr<StageHost> StageHost::create(const std::string& name, std::string key,
                                             StageTransport transport, const ThreadFactory& threads) {
  if (!is_stage_name(name))
    throw Error(ErrorCode::invalid_argument, "\"{}\" is not a stage such as tcp://10.0.0.2:7430",
                printable(name));
  StageAddress stage{name, parse_address(std::string_view(name).substr(kScheme.size())), std::move(key),
                     &threads};
  return std::shared_ptr<StageHost>(new StageHost(std::move(stage), transport));
}

std::shared_ptr<StageConnection> StageHost::connect() const {
  return std::make_shared<StageConnection>(stage_, counters_);
}

std::shared_ptr<StageConnection> StageHost::live_control() {
  const MutexLock lock(mutex_);
  return control_ != nullptr && !control_->is_lost() ? control_ : nullptr;
}

// Connects anew if the connection was lost, to a stage that was started again on the same device.
std::shared_ptr<StageConnection> StageHost::control() {
  const MutexLock one_at_a_time(connect_mutex_);
  if (auto live = live_control()) return live;
  auto connection = connect();
  auto description = connection->ask<StageDescription>(StageRequest::describe, NoFields());
  require_same_release(stage_.name, description);
  const MutexLock lock(mutex_);
  if (control_ != nullptr && !is_same_device(description, description_)) {
    throw Error(ErrorCode::device_lost,
                "the stage {} was started again on a device of another kind; create a new runtime",
                stage_.name)
        .at("device");
  }
  description_ = std::move(description);
  link_failure_.clear();
  control_ = std::move(connection);
  return control_;
}

std::string StageHost::link_refusal(const Device& home) {
  LinkOffer offer;
  {
    const MutexLock lock(mutex_);
    if (!link_failure_.empty()) return link_failure_;
    offer = description_.links;
  }
  return quire::link_refusal(home, transport_, offer);
}

void StageHost::refuse_links(std::string why) {
  const MutexLock lock(mutex_);
  link_failure_ = std::move(why);
}

std::shared_ptr<Device> StageHost::open_device() {
  (void)control();
  const MutexLock lock(mutex_);
  return make_stage_device(stage_.name, description_, counters_, shared_from_this());
}

std::shared_ptr<const RemoteLayers> StageHost::build(const RemoteBuild& what) {
  const bool is_plan = what.mode == BuildMode::plan;
  const std::shared_ptr<StageConnection> connection = is_plan ? control() : connect();
  const BuildRequest request{what.model.path,
                             what.model.identity,
                             what.first_layer,
                             what.end_layer,
                             static_cast<int32_t>(what.activations),
                             is_plan};
  auto built =
      connection->ask<BuildAnswer>(StageRequest::build, request, {what.model.cancel, what.model.deadline});
  if (built.bytes.layers.size() != static_cast<size_t>(what.end_layer - what.first_layer))
    connection->lose("a build of other layers");
  return std::make_shared<StageLayersOfHost>(shared_from_this(), connection, counters_, std::move(built));
}

}  // namespace quire

// A stage answers every request of a host that has the key, however malformed, and goes on. A host takes no
// harm from the answers of a stage.
#include <random>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/net/stream_fixture.h"
#include "tests/core/stages/stage_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_families.h"

namespace quire::testing {
namespace {

constexpr Duration kPatience = std::chrono::seconds(20);

struct Empty {
  template <typename Wire>
  void fields(Wire&) {}
};

template <typename Number>
struct One {
  Number number{};
  template <typename Wire>
  void fields(Wire& wire) {
    wire(number);
  }
};
using Id = One<uint64_t>;
using Pages = One<int32_t>;

class StageRequests : public ::testing::Test {
 protected:
  std::shared_ptr<Device> cpu_ = open_cpu();
  StageThread stage_{cpu_, uint64_t{64} << 20};
  const std::shared_ptr<StageCounters> counters_ = std::make_shared<StageCounters>();
  StageConnection connection_{{stage_.name(), parse_address(stage_.name().substr(6)), kStageKey}, counters_};

  template <typename Fields>
  StageAnswer call(StageRequest request, Fields fields, gsl::span<const std::byte> rest = {}) {
    WireWriter wire;
    fields.fields(wire);
    return connection_.call(request, wire.bytes(), rest);
  }
  static BuildRequest whole_model(bool is_plan) {
    const auto source = open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL);
    return {source->path(), source->identity(), 0, 8, 0, is_plan};
  }
  BuildAnswer build(bool is_plan = false) {
    return connection_.ask<BuildAnswer>(StageRequest::build, whole_model(is_plan));
  }
  static CacheRequest sizes(uint64_t id) {
    CacheRequest request;
    request.id = id;
    request.options.max_tokens = 8;
    request.options.max_sequences = 2;
    request.options.max_pages_per_sequence = 4;
    request.options.kv.num_pages = 8;
    request.options.kv.page_tokens = 16;
    return request;
  }
  // Checks that the stage still answers.
  void expect_alive() {
    EXPECT_FALSE(connection_.is_lost());
    EXPECT_EQ(connection_.ask<StageDescription>(StageRequest::describe, Empty()).version, library_version());
  }
};

TEST_F(StageRequests, DescribeTheDevice) {
  const auto description = connection_.ask<StageDescription>(StageRequest::describe, Empty());
  EXPECT_EQ(description.table, cpu_->table().name);
  EXPECT_EQ(description.total_bytes, uint64_t{64} << 20);
  EXPECT_EQ(counters_->free_bytes, uint64_t{64} << 20);
}

TEST_F(StageRequests, OfUnknownKindsAreRefused) {
  for (const int kind : {0, 19, 99, 255})
    expect_error(ErrorCode::format, {"no request of kind"},
                 [&] { call(static_cast<StageRequest>(kind), Empty()); });
  expect_alive();
}

TEST_F(StageRequests, BeforeACacheExistsAreRefused) {
  for (int kind = static_cast<int>(StageRequest::acquire_weights);
       kind <= static_cast<int>(StageRequest::write_state); ++kind)
    expect_error(ErrorCode::format, {}, [&] { call(static_cast<StageRequest>(kind), Id{0}); });
  expect_alive();
}

TEST_F(StageRequests, ForLayersThatDoNotExistAreRefused) {
  for (const auto& [first, end] : {std::pair(0, 9), std::pair(-1, 4), std::pair(4, 4), std::pair(5, 3),
                                   std::pair(INT32_MIN, INT32_MAX)}) {
    BuildRequest request = whole_model(true);
    request.first_layer = first;
    request.end_layer = end;
    expect_error(ErrorCode::invalid_argument, {"layers"}, [&] { call(StageRequest::build, request); });
  }
  BuildRequest request = whole_model(true);
  request.activations = 9;
  expect_error(ErrorCode::invalid_argument, {"activation_dtype"},
               [&] { call(StageRequest::build, request); });
  expect_error(ErrorCode::not_found, {"number 999"},
               [&] { call(StageRequest::create_executor, sizes(999)); });
  expect_alive();
}

TEST_F(StageRequests, ManyPlansOfOneConnectionAreBounded) {
  std::vector<BuildAnswer> plans;
  expect_error(ErrorCode::capacity, {"builds"}, [&] {
    for (int i = 0; i < 300; ++i) plans.push_back(build(true));
  });
  EXPECT_EQ(plans.size(), 256U);
  call(StageRequest::close, Empty());
  expect_alive();
}

TEST_F(StageRequests, BeyondTheMemoryAreRefused) {
  const BuildAnswer built = build();
  CacheRequest request = sizes(built.id);
  request.options.kv.num_pages = 1 << 20;
  expect_error(ErrorCode::out_of_memory, {"bytes", "--memory"},
               [&] { call(StageRequest::create_executor, request); });
  request.options.kv.num_pages = INT32_MAX;
  expect_error(ErrorCode::invalid_argument, {"num_pages"},
               [&] { call(StageRequest::create_executor, request); });
  expect_alive();
}

TEST_F(StageRequests, ToACacheAreChecked) {
  const BuildAnswer built = build();
  const auto stored = connection_.ask<ExecutorAnswer>(StageRequest::create_executor, sizes(built.id));
  ASSERT_EQ(stored.page_bytes.size(), 1U);
  Batch batch;
  batch.sequence_starts = {0, 1};
  batch.kv_lengths = {1};
  batch.page_table = {0};
  batch.page_table_stride = 1;
  batch.token_ids = batch.positions = batch.sequence_of_token = {0};
  const auto forward = [&](size_t num_floats) {
    const std::vector<float> rows(num_floats, 0.5F);
    WireWriter wire;
    write_batch(batch, wire);
    return connection_.call(StageRequest::forward, wire.bytes(), gsl::as_bytes(gsl::span(rows)));
  };
  const size_t hidden = static_cast<size_t>(
      open_model_source(posix_file_system(), QUIRE_EMBEDDED_MODEL)->config().spec.hidden_size);
  expect_error(ErrorCode::invalid_argument, {"no weights"}, [&] { forward(hidden); });
  BuildRequest half = whole_model(false);
  half.end_layer = 4;
  const auto other = connection_.ask<BuildAnswer>(StageRequest::build, half);
  expect_error(ErrorCode::invalid_argument, {"not of the layers"},
               [&] { call(StageRequest::acquire_weights, Id{other.id}); });
  call(StageRequest::acquire_weights, Id{built.id});
  EXPECT_EQ(forward(hidden).bytes().size(), hidden * sizeof(float));
  for (const size_t size : {size_t{0}, hidden - 1, hidden + 1, 2 * hidden})
    expect_error(ErrorCode::format, {"bytes of rows"}, [&] { forward(size); });
  batch.page_table = {8};
  expect_error(ErrorCode::format, {"malformed"}, [&] { forward(hidden); });
  batch.page_table = {0};

  for (const StoredPart& part : {StoredPart{0, 8}, StoredPart{0, -1}, StoredPart{1, 0}, StoredPart{-1, 0}}) {
    expect_error(ErrorCode::format, {"no page"}, [&] { call(StageRequest::read_page, part); });
    const std::vector<std::byte> page(stored.page_bytes[0]);
    expect_error(ErrorCode::format, {"no page"}, [&] { call(StageRequest::write_page, part, page); });
  }
  expect_error(ErrorCode::format, {"no page"}, [&] { call(StageRequest::write_page, StoredPart{0, 0}); });
  expect_error(ErrorCode::format, {"no bank"}, [&] { call(StageRequest::read_state, StoredPart{0, 0}); });
  for (const int32_t count : {0, 7, 9, -1, INT32_MAX})
    expect_error(ErrorCode::invalid_argument, {"cannot change"},
                 [&] { call(StageRequest::set_num_pages, Pages{count}); });
  EXPECT_EQ(forward(hidden).bytes().size(), hidden * sizeof(float));
  expect_alive();
}

TEST_F(StageRequests, OfRandomBytesAreAnswered) {
  const BuildAnswer built = build();
  (void)connection_.ask<ExecutorAnswer>(StageRequest::create_executor, sizes(built.id));
  call(StageRequest::acquire_weights, Id{built.id});
  std::mt19937_64 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes(random() % 120);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 3 == 0 ? random() : 0);
    auto kind = static_cast<StageRequest>(random() % 20);
    if (kind == StageRequest::close) kind = StageRequest::forward;
    try {
      (void)connection_.call(kind, bytes, {}, uint64_t{1} << 24);
    } catch (const Error& error) {
      ASSERT_NE(error.code(), ErrorCode::device_lost) << error.what();
      ASSERT_NE(error.code(), ErrorCode::internal) << error.what();
    }
  }
  expect_alive();
}

// The CPU has no links, and a stage without a link has no rows to wait for.
TEST_F(StageRequests, ForLinksAreRefused) {
  const BuildAnswer built = build();
  (void)connection_.ask<ExecutorAnswer>(StageRequest::create_executor, sizes(built.id));
  call(StageRequest::acquire_weights, Id{built.id});
  expect_error(ErrorCode::unsupported, {"the CPU has no links"},
               [&] { call(StageRequest::begin_link, LinkRequest{std::vector<uint8_t>(128)}); });
  expect_error(ErrorCode::format, {"no link"}, [&] { call(StageRequest::finish_link, Empty()); });
  WireWriter wire;
  Batch batch;
  batch.sequence_starts = {0, 1};
  batch.kv_lengths = {1};
  batch.page_table = {0};
  batch.page_table_stride = 1;
  batch.token_ids = batch.positions = batch.sequence_of_token = {0};
  write_batch(batch, wire);
  expect_error(ErrorCode::format, {"no link"},
               [&] { connection_.call(StageRequest::forward_linked, wire.bytes()); });
  call(StageRequest::drop_link, Empty());
  expect_alive();
}

// What a host has goes with its connection.
TEST_F(StageRequests, OfAHostThatLeavesAreFreed) {
  {
    StageConnection other({stage_.name(), parse_address(stage_.name().substr(6)), kStageKey}, counters_);
    (void)other.ask<BuildAnswer>(StageRequest::build, whole_model(false));
    EXPECT_GT(stage_.server().reserved_bytes(), 0U);
  }
  const TimePoint deadline = steady_clock().now() + kPatience;
  while (stage_.server().reserved_bytes() > 0 && steady_clock().now() < deadline) std::this_thread::yield();
  EXPECT_EQ(stage_.server().reserved_bytes(), 0U);
  EXPECT_EQ(cpu_->memory_use().held_bytes, 0U);
}

// Strangers that say nothing take no place of hosts.
TEST_F(StageRequests, AreAnsweredBesideStrangers) {
  std::vector<std::unique_ptr<ByteStream>> strangers;
  for (int i = 0; i < 12; ++i)
    strangers.push_back(connect_tcp(parse_address(stage_.name().substr(6)), kPatience));
  EXPECT_NO_THROW((void)join_stage(stage_.name()));
  for (int i = 0; i < 20; ++i)
    strangers.push_back(connect_tcp(parse_address(stage_.name().substr(6)), kPatience));
  expect_alive();
}

// A stage that answers what it likes.
class HostileStage {
 public:
  explicit HostileStage(std::vector<std::string> answers)
      : answers_(std::move(answers)), thread_([this] { serve(); }) {}
  ~HostileStage() {
    stop_ = true;
    thread_.join();
  }
  StageAddress address() const {
    return {"tcp://" + listener_.address().text(), listener_.address(), kStageKey};
  }

 private:
  void serve() {
    std::shared_ptr<ByteStream> stream;
    while (stream == nullptr && !stop_)
      stream = listener_.accept(steady_clock().now() + std::chrono::milliseconds(50));
    if (stream == nullptr) return;
    try {
      ChannelOptions options;
      options.peer = "the host";
      Channel channel(stream,
                      shake_hands(*stream, kStageKey, PeerRole::stage, steady_clock().now() + kPatience),
                      options);
      for (const std::string& answer : answers_) {
        (void)channel.receive();
        channel.send({gsl::as_bytes(gsl::span(answer.data(), answer.size()))});
      }
      while (!stop_ && !channel.is_lost()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    } catch (const Error&) {  // the host has ended the connection
    }
  }

  const std::vector<std::string> answers_;
  TcpListener listener_{NetAddress{"127.0.0.1", 0}};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

std::string head(bool is_done) {
  return std::string(1, is_done ? '\1' : '\0') + std::string(8, '\0');
}

TEST(HostileAnswers, EndTheConnection) {
  const std::vector<std::string> answers = {"",
                                            "\1",
                                            head(true),
                                            head(true) + "x",
                                            head(false),
                                            head(false) + "\1\0\0\0",
                                            head(true) + std::string(4, '\xff') + "text",
                                            head(true) + std::string(200, '\0'),
                                            std::string(kPlainMessageBytes + 1, '\1')};
  for (size_t i = 0; i < answers.size(); ++i) {
    SCOPED_TRACE(i);
    const HostileStage stage({answers[i]});
    StageConnection connection(stage.address(), std::make_shared<StageCounters>());
    expect_error(ErrorCode::device_lost, {"is lost"},
                 [&] { (void)connection.ask<StageDescription>(StageRequest::describe, Empty()); });
  }
}

TEST(HostileAnswers, ErrorsAreOneLineOfAKnownCode) {
  WireWriter wire;
  ErrorAnswer{999, "line\nbreak \x1b[2J", "a\nb"}.fields(wire);
  const HostileStage stage({head(false) + std::string(text_of(wire.bytes()))});
  StageConnection connection(stage.address(), std::make_shared<StageCounters>());
  expect_error(ErrorCode::internal, {stage.address().name, "line"},
               [&] { (void)connection.call(StageRequest::describe, {}); });
}

TEST(HostileAnswers, OfOtherSizesEndTheConnection) {
  WireWriter executor;
  ExecutorAnswer{{16}, 0}.fields(executor);
  WireWriter built;
  BuildAnswer{1, {{1, 2, 3}, 4}}.fields(built);
  const HostileStage stage({head(true) + std::string(text_of(built.bytes()))});
  const auto host = StageHost::create(stage.address().name, kStageKey);
  const SharedModel model{"/m", {}};
  expect_error(ErrorCode::device_lost, {"other layers"}, [&] {
    (void)host->build({model, 0, 2, kernels::ActivationDtype::full, BuildMode::prepare});
  });
}

// A stage that lives and does not answer: the wait of a load ends.
TEST(SilentAnswers, EndWithTheWaitOfALoad) {
  const std::atomic<bool> cancel{true};
  for (const bool is_cancelled : {true, false}) {
    const HostileStage stage({});
    const auto host = StageHost::create(stage.address().name, kStageKey);
    SharedModel model{"/m", {}};
    if (is_cancelled) model.cancel = &cancel;
    if (!is_cancelled) model.deadline = steady_clock().now() + std::chrono::milliseconds(50);
    expect_error(ErrorCode::cancelled, {stage.address().name}, [&] {
      (void)host->build({model, 0, 2, kernels::ActivationDtype::full, BuildMode::prepare});
    });
  }
}

TEST(StageNames, AreChecked) {
  for (const char* name : {"tcp://", "tcp://h", "tcp://h:0", "udp://h:1", "cpu"})
    expect_error(ErrorCode::invalid_argument, {}, [&] { (void)StageHost::create(name, kStageKey); });
  EXPECT_TRUE(is_stage_name("tcp://h:1"));
  EXPECT_FALSE(is_stage_name("cuda:0"));
}

TEST(StageServers, NeedADeviceForEachShardOrOneForAll) {
  const auto serve = [](std::vector<std::shared_ptr<Device>> devices, int32_t num_shards) {
    StageServerOptions options;
    options.address = {"127.0.0.1", 0};
    options.key = kStageKey;
    options.devices = std::move(devices);
    options.num_shards = num_shards;
    const StageServer server(std::move(options));
  };
  const auto first = open_cpu(), second = open_cpu();
  EXPECT_NO_THROW(serve({first}, 2));
  EXPECT_NO_THROW(serve({first, second}, 2));
  for (const int32_t num_shards : {0, -1, kMaxShards + 1})
    expect_error(ErrorCode::invalid_argument, {"num_shards", "1 to 64"}, [&] { serve({first}, num_shards); });
  for (const int32_t num_shards : {1, 3})
    expect_error(ErrorCode::invalid_argument, {"num_shards", "2 devices"}, [&] {
      serve({first, second}, num_shards);
    });
  expect_error(ErrorCode::invalid_argument, {"num_shards", "0 devices"}, [&] { serve({}, 2); });
  expect_error(ErrorCode::invalid_argument, {"device", first->name(), "twice"}, [&] {
    serve({first, first}, 2);
  });
}

}  // namespace
}  // namespace quire::testing

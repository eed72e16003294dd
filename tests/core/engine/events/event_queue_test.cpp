// Event streams and queues: no event is lost or repeated, and no reader waits for ever.
#include "core/engine/events/event_queue.h"

#include <atomic>
#include <new>
#include <poll.h>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "core/engine/events/event_stream.h"
#include "tests/support/allocation_faults.h"

namespace quire {
namespace {

Event text_event(const std::string& text, TokenId token = 0) {
  Event event;
  event.kind = EventKind::text;
  event.text = text;
  event.token_ids = {token};
  return event;
}

Event terminal_event() {
  Event event;
  event.kind = EventKind::finished;
  event.reason = FinishReason::completed;
  return event;
}

std::shared_ptr<EventStream> make_stream(SlowReaderPolicy policy,
                                         const std::shared_ptr<EventQueue>& queue = nullptr) {
  EventStreamOptions options;
  options.policy = policy;
  options.max_unread = 2;
  options.queue = queue;
  return std::make_shared<EventStream>(options);
}

bool readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

TEST(EventStreamTest, ASlowReaderGetsTextJoinedAndLosesNothing) {
  const auto stream = make_stream(SlowReaderPolicy::coalesce);
  for (int32_t i = 0; i < 10; ++i)
    EXPECT_TRUE(stream->push(text_event(std::string(1, static_cast<char>('a' + i)), i)));
  stream->finish(terminal_event());
  std::string text;
  TokenIds tokens;
  int32_t num_events = 0;
  while (const auto event = stream->try_poll()) {
    text += event->text;
    tokens.insert(tokens.end(), event->token_ids.begin(), event->token_ids.end());
    ++num_events;
  }
  EXPECT_EQ(text, "abcdefghij");
  EXPECT_EQ(tokens.size(), 10U);
  EXPECT_EQ(num_events, 3);
  EXPECT_TRUE(stream->drained());
}

TEST(EventStreamTest, PauseHoldsBackUntilTheReaderHasCaughtUp) {
  const auto stream = make_stream(SlowReaderPolicy::pause);
  stream->push(text_event("a"));
  EXPECT_FALSE(stream->is_throttled());
  stream->push(text_event("b"));
  EXPECT_TRUE(stream->is_throttled());
  stream->try_poll();
  EXPECT_FALSE(stream->is_throttled());
}

TEST(EventStreamTest, EndRefusesAnEventThatDoesNotFit) {
  const auto stream = make_stream(SlowReaderPolicy::end);
  EXPECT_TRUE(stream->push(text_event("a")));
  EXPECT_TRUE(stream->push(text_event("b")));
  EXPECT_FALSE(stream->push(text_event("c")));
}

// An event taken from its job that could not be delivered would be lost, including the last event of a job.
TEST(EventQueueTest, WithoutMemoryNoEventIsLost) {
  for (int64_t nth = 1; nth <= 6; ++nth) {
    const auto queue = std::make_shared<EventQueue>();
    std::vector<std::shared_ptr<EventStream>> streams;
    for (TokenId i = 0; i < 30; ++i) {
      streams.push_back(make_stream(SlowReaderPolicy::coalesce, queue));
      streams.back()->push(text_event("a", i));
    }
    std::set<TokenId> seen;
    const auto drain = [&] {
      for (const Event& event : queue->drain(100, Duration{0})) seen.insert(event.token_ids[0]);
    };
    try {
      const testing::AllocationFault fault(nth, testing::FaultSpan::once);
      const std::vector<Event> events = queue->drain(100, Duration{0});
      const testing::AllocationFaultsOff off;
      for (const Event& event : events) seen.insert(event.token_ids[0]);
    } catch (const std::bad_alloc&) {
      EXPECT_TRUE(seen.empty());
    }
    drain();
    EXPECT_EQ(seen.size(), 30U) << "allocation " << nth;
  }
}

TEST(EventStreamTest, OnlyTheFirstTerminalEventCounts) {
  const auto stream = make_stream(SlowReaderPolicy::coalesce);
  stream->finish(terminal_event());
  stream->finish(terminal_event());
  stream->push(text_event("late"));
  EXPECT_TRUE(stream->try_poll()->terminal());
  EXPECT_FALSE(stream->try_poll().has_value());
}

TEST(EventStreamTest, FinishingWakesAWaitingReader) {
  const auto stream = make_stream(SlowReaderPolicy::coalesce);
  std::thread reader([&] { EXPECT_TRUE(stream->poll(std::chrono::hours(1))->terminal()); });
  stream->finish(terminal_event());
  reader.join();
}

TEST(EventQueueTest, TheDescriptorIsReadableExactlyWhileEventsWait) {
  const auto queue = std::make_shared<EventQueue>();
  const auto stream = make_stream(SlowReaderPolicy::coalesce, queue);
  const int fd = queue->file_descriptor();
  EXPECT_FALSE(readable(fd));
  stream->push(text_event("a"));
  stream->push(text_event("b"));
  EXPECT_TRUE(readable(fd));
  EXPECT_EQ(queue->drain(1, Duration{0}).size(), 1U);
  EXPECT_TRUE(readable(fd)) << "one is left";
  EXPECT_EQ(queue->drain(10, Duration{0}).size(), 1U);
  EXPECT_FALSE(readable(fd));
  queue->close();
  EXPECT_TRUE(readable(fd));
}

TEST(EventQueueTest, JobsTakeTurns) {
  const auto queue = std::make_shared<EventQueue>();
  std::vector<std::shared_ptr<EventStream>> streams;
  for (int32_t i = 0; i < 3; ++i) {
    streams.push_back(make_stream(SlowReaderPolicy::pause, queue));
    for (int32_t n = 0; n < 2; ++n)
      streams.back()->push(text_event(std::string(1, static_cast<char>('a' + i))));
  }
  std::string order;
  for (const Event& event : queue->drain(100, Duration{0})) order += event.text;
  EXPECT_EQ(order, "abcabc");
}

TEST(EventQueueTest, AQueueMayBeDestroyedFirst) {
  auto queue = std::make_shared<EventQueue>();
  const auto stream = make_stream(SlowReaderPolicy::coalesce, queue);
  stream->push(text_event("a"));
  queue.reset();
  stream->push(text_event("b"));
  EXPECT_EQ(stream->try_poll()->text, "a");
}

TEST(EventQueueTest, CloseWakesEveryWaiter) {
  EventQueue queue;
  std::vector<std::thread> waiters;
  for (int32_t i = 0; i < 4; ++i) {
    waiters.emplace_back([&] { EXPECT_TRUE(queue.drain(1, std::chrono::hours(1)).empty()); });
  }
  queue.close();
  for (std::thread& waiter : waiters) waiter.join();
}

TEST(EventQueueTest, ManyWritersAndReadersLoseNothing) {
  const auto queue = std::make_shared<EventQueue>();
  constexpr int32_t kStreams = 8;
  constexpr int32_t kEvents = 500;
  std::vector<std::shared_ptr<EventStream>> streams;
  for (int32_t i = 0; i < kStreams; ++i) streams.push_back(make_stream(SlowReaderPolicy::coalesce, queue));
  std::atomic<int32_t> terminals{0};
  std::atomic<int64_t> tokens{0};
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (terminals < kStreams) {
        for (const Event& event : queue->drain(7, std::chrono::milliseconds(20))) {
          tokens += static_cast<int64_t>(event.token_ids.size());
          if (event.terminal()) ++terminals;
        }
      }
    });
  }
  for (const auto& stream : streams) {
    threads.emplace_back([&stream] {
      for (int32_t n = 0; n < kEvents; ++n) stream->push(text_event("x", n));
      stream->finish(terminal_event());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tokens, kStreams * kEvents);
}

}  // namespace
}  // namespace quire

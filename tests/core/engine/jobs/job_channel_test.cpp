// The end of a job as its last event reports it.
#include "core/engine/jobs/job_channel.h"

#include <gtest/gtest.h>

#include "core/base/clock.h"
#include "core/engine/events/event_stream.h"

namespace quire {
namespace {

TEST(JobChannelTest, TheLastEventHasTheStopTextAsItIs) {
  EventStreamOptions options;
  options.clock = &steady_clock();
  JobChannel channel(JobKind::generate, {}, "", options);
  JobResult result;
  result.reason = FinishReason::stop_string;
  result.stop_string = "\n\x1b\xe2\x80\xae";
  EXPECT_TRUE(channel.finish(std::move(result)));
  const std::optional<Event> event = channel.stream->poll(Duration{0});
  ASSERT_TRUE(event);
  EXPECT_EQ(event->stop_string, "\n\x1b\xe2\x80\xae");
  EXPECT_EQ(channel.result().stop_string, event->stop_string);
}

}  // namespace
}  // namespace quire

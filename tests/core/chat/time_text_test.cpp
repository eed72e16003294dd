#include "core/chat/time_text.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire::chat {
namespace {

// Expected values from Python: datetime(...).strftime(...).
TEST(TimeText, MatchesPython) {
  const LocalTime time{2025, 7, 26, 14, 5, 9};
  EXPECT_EQ(time_text(time, "%d %b %Y, %A %B %-d, %H:%M:%S"), "26 Jul 2025, Saturday July 26, 14:05:09");
  EXPECT_EQ(time_text(time, "%a %y %m %I %p %j %U %W %w %u %V %G"), "Sat 25 07 02 PM 207 29 29 6 6 30 2025");
  EXPECT_EQ(time_text(time, "%F %T %D %R %e|%c|%x|%X|%%|%f"),
            "2025-07-26 14:05:09 07/26/25 14:05 26|Sat Jul 26 14:05:09 2025|07/26/25|14:05:09|%|000000");
  EXPECT_EQ(time_text({2024, 12, 30, 0, 0, 0}, "%G-W%V-%u %I %j"), "2025-W01-1 12 365");
  EXPECT_EQ(time_text({2021, 1, 3, 0, 0, 0}, "%G-W%V-%u %U %W"), "2020-W53-7 01 00");
}

TEST(TimeText, ReadsDatesAndTimes) {
  EXPECT_EQ(time_text(parse_time("2025-07-26", "now"), "%c"), "Sat Jul 26 00:00:00 2025");
  EXPECT_EQ(time_text(parse_time("2024-02-29 23:59", "now"), "%F %T"), "2024-02-29 23:59:00");
  EXPECT_EQ(time_text(parse_time("2025-07-26T14:05:09", "now"), "%T"), "14:05:09");
  for (const char* text : {"", "2025", "2025-13-01", "2025-02-29", "2025-07-26x", "2025-07-26T25:00",
                           "2025-07-26T14:05:09Z", "+025-07-26", "2025-07-26T14:5"}) {
    EXPECT_THROW(parse_time(text, "now"), Error) << text;
  }
}

}  // namespace
}  // namespace quire::chat

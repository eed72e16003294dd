#include "core/chat/time_text.h"

#include <array>
#include <charconv>

#include <fmt/format.h>

#include "core/base/error.h"

namespace quire::chat {
namespace {

constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {"January",   "February", "March",    "April",
                                                      "May",       "June",     "July",     "August",
                                                      "September", "October",  "November", "December"};

bool is_leap(int32_t year) {
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

int32_t days_in_month(int32_t year, int32_t month) {
  constexpr std::array<int32_t, 12> kDaysOfMonths = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kDaysOfMonths[static_cast<size_t>(month - 1)] + (month == 2 && is_leap(year) ? 1 : 0);
}

int32_t day_of_year(const LocalTime& time) {
  int32_t days = time.day - 1;
  for (int32_t month = 1; month < time.month; ++month) days += days_in_month(time.year, month);
  return days;
}

int64_t days_before_year(int32_t year) {
  const int64_t past = year - 1;
  return past * 365 + past / 4 - past / 100 + past / 400;
}

// Returns the day of the week; 0 is Sunday.
int32_t day_of_week(const LocalTime& time) {
  return static_cast<int32_t>((days_before_year(time.year) + day_of_year(time) + 1) % 7);
}

// Year and week of ISO 8601: weeks begin on Monday, and week 1 contains the first Thursday.
struct IsoWeek {
  int32_t year;
  int32_t week;
};

int32_t weeks_in(int32_t year) {
  const int32_t first = day_of_week({year, 1, 1});
  return first == 4 || (first == 3 && is_leap(year)) ? 53 : 52;
}

IsoWeek iso_week(const LocalTime& time) {
  const int32_t weekday = (day_of_week(time) + 6) % 7;
  const int32_t week = (day_of_year(time) - weekday + 10) / 7;
  if (week < 1) return {time.year - 1, weeks_in(time.year - 1)};
  if (week > weeks_in(time.year)) return {time.year + 1, 1};
  return {time.year, week};
}

enum class Padding { zero, blank, none };

std::string number(int64_t value, int width, Padding padding) {
  switch (padding) {
    case Padding::zero:
      return fmt::format("{:0{}}", value, width);
    case Padding::blank:
      return fmt::format("{:{}}", value, width);
    case Padding::none:
      break;
  }
  return fmt::format("{}", value);
}

std::string expanded(const LocalTime& t, std::string_view format) {
  return time_text(t, format);
}

int32_t hour_of_12(const LocalTime& t) {
  return t.hour % 12 == 0 ? 12 : t.hour % 12;
}

// Returns the expansion of a directive of strftime ('%' and a letter); unknown directives stay unchanged.
std::string directive(const LocalTime& t, char letter, Padding padding) {
  const auto or_blank = [&](Padding wanted) { return padding == Padding::zero ? wanted : padding; };
  const auto weekday = static_cast<size_t>(day_of_week(t));
  const auto month = static_cast<size_t>(t.month - 1);
  switch (letter) {
    case 'a':
      return std::string(kDays[weekday].substr(0, 3));
    case 'A':
      return std::string(kDays[weekday]);
    case 'b':
    case 'h':
      return std::string(kMonths[month].substr(0, 3));
    case 'B':
      return std::string(kMonths[month]);
    case 'c':
      return expanded(t, "%a %b %e %H:%M:%S %Y");
    case 'C':
      return number(t.year / 100, 2, padding);
    case 'd':
      return number(t.day, 2, padding);
    case 'D':
      return expanded(t, "%m/%d/%y");
    case 'e':
      return number(t.day, 2, or_blank(Padding::blank));
    case 'f':
      return "000000";
    case 'F':
      return expanded(t, "%Y-%m-%d");
    case 'g':
      return number(iso_week(t).year % 100, 2, padding);
    case 'G':
      return number(iso_week(t).year, 4, padding);
    case 'H':
      return number(t.hour, 2, padding);
    case 'I':
      return number(hour_of_12(t), 2, padding);
    case 'j':
      return number(day_of_year(t) + 1, 3, padding);
    case 'k':
      return number(t.hour, 2, or_blank(Padding::blank));
    case 'l':
      return number(hour_of_12(t), 2, or_blank(Padding::blank));
    case 'm':
      return number(t.month, 2, padding);
    case 'M':
      return number(t.minute, 2, padding);
    case 'n':
      return "\n";
    case 'p':
      return t.hour < 12 ? "AM" : "PM";
    case 'P':
      return t.hour < 12 ? "am" : "pm";
    case 'r':
      return expanded(t, "%I:%M:%S %p");
    case 'R':
      return expanded(t, "%H:%M");
    case 'S':
      return number(t.second, 2, padding);
    case 't':
      return "\t";
    case 'T':
    case 'X':
      return expanded(t, "%H:%M:%S");
    case 'u':
      return number(weekday == 0 ? 7 : static_cast<int64_t>(weekday), 1, Padding::none);
    case 'U':
      return number((day_of_year(t) + 7 - static_cast<int32_t>(weekday)) / 7, 2, padding);
    case 'V':
      return number(iso_week(t).week, 2, padding);
    case 'w':
      return number(static_cast<int64_t>(weekday), 1, Padding::none);
    case 'W':
      return number((day_of_year(t) + 7 - (static_cast<int32_t>(weekday) + 6) % 7) / 7, 2, padding);
    case 'x':
      return expanded(t, "%m/%d/%y");
    case 'y':
      return number(t.year % 100, 2, padding);
    case 'Y':
      return number(t.year, 4, padding == Padding::zero ? Padding::none : padding);
    case 'z':
    case 'Z':
      return "";
    case '%':
      return "%";
    default:
      return std::string("%") + letter;
  }
}

}  // namespace

std::string time_text(const LocalTime& time, std::string_view format) {
  std::string out;
  for (size_t pos = 0; pos < format.size(); ++pos) {
    if (format[pos] != '%' || pos + 1 == format.size()) {
      out += format[pos];
      continue;
    }
    Padding padding = Padding::zero;
    char letter = format[++pos];
    if ((letter == '-' || letter == '_' || letter == '0') && pos + 1 < format.size()) {
      if (letter != '0') padding = letter == '-' ? Padding::none : Padding::blank;
      letter = format[++pos];
    }
    out += directive(time, letter, padding);
  }
  return out;
}

LocalTime parse_time(std::string_view text, std::string_view what) {
  LocalTime time;
  const auto fail = [&] {
    throw Error(ErrorCode::invalid_argument, "{}: \"{}\" is not a time; write it like 2025-07-26T14:05:09",
                what, printable(text));
  };
  const auto read = [&](size_t pos, size_t length, int32_t min, int32_t max) {
    int32_t value = -1;
    if (pos + length > text.size()) fail();
    const auto result = std::from_chars(text.data() + pos, text.data() + pos + length, value);
    if (result.ptr != text.data() + pos + length || value < min || value > max) fail();
    return value;
  };
  const auto expect = [&](size_t pos, std::string_view any) {
    if (pos >= text.size() || any.find(text[pos]) == std::string_view::npos) fail();
  };
  time.year = read(0, 4, 1, 9999);
  expect(4, "-");
  time.month = read(5, 2, 1, 12);
  expect(7, "-");
  time.day = read(8, 2, 1, days_in_month(time.year, time.month));
  if (text.size() == 10) return time;
  expect(10, "T ");
  time.hour = read(11, 2, 0, 23);
  expect(13, ":");
  time.minute = read(14, 2, 0, 59);
  if (text.size() == 16) return time;
  expect(16, ":");
  time.second = read(17, 2, 0, 59);
  if (text.size() != 19) fail();
  return time;
}

}  // namespace quire::chat

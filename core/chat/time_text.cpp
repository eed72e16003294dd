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

// Returns the padding of a directive whose default is not zeros.
Padding padding_or(Padding given, Padding by_default) {
  return given == Padding::zero ? by_default : given;
}

int32_t hour_of_12(const LocalTime& t) {
  return t.hour % 12 == 0 ? 12 : t.hour % 12;
}

// Returns the week of the year if weeks begin on Sunday (0) or Monday (1); days before the first such day are
// in week 0.
int32_t week_of_year(const LocalTime& t, int32_t first_weekday) {
  return (day_of_year(t) + 7 - (day_of_week(t) + 7 - first_weekday) % 7) / 7;
}

std::string day_name(const LocalTime& t) {
  return std::string(kDays[static_cast<size_t>(day_of_week(t))]);
}

std::string month_name(const LocalTime& t) {
  return std::string(kMonths[static_cast<size_t>(t.month - 1)]);
}

// A directive of strftime: '%' and a letter.
struct Directive {
  char letter;
  std::string (*text)(const LocalTime& t, Padding padding);
};

using T = const LocalTime&;  // short, for one line per directive

constexpr Directive kDirectives[] = {
    {'a', [](T t, Padding) { return day_name(t).substr(0, 3); }},
    {'A', [](T t, Padding) { return day_name(t); }},
    {'b', [](T t, Padding) { return month_name(t).substr(0, 3); }},
    {'B', [](T t, Padding) { return month_name(t); }},
    {'c', [](T t, Padding) { return time_text(t, "%a %b %e %H:%M:%S %Y"); }},
    {'C', [](T t, Padding padding) { return number(t.year / 100, 2, padding); }},
    {'d', [](T t, Padding padding) { return number(t.day, 2, padding); }},
    {'D', [](T t, Padding) { return time_text(t, "%m/%d/%y"); }},
    {'e', [](T t, Padding padding) { return number(t.day, 2, padding_or(padding, Padding::blank)); }},
    {'f', [](T, Padding) { return std::string("000000"); }},
    {'F', [](T t, Padding) { return time_text(t, "%Y-%m-%d"); }},
    {'g', [](T t, Padding padding) { return number(iso_week(t).year % 100, 2, padding); }},
    {'G', [](T t, Padding padding) { return number(iso_week(t).year, 4, padding); }},
    {'h', [](T t, Padding) { return month_name(t).substr(0, 3); }},
    {'H', [](T t, Padding padding) { return number(t.hour, 2, padding); }},
    {'I', [](T t, Padding padding) { return number(hour_of_12(t), 2, padding); }},
    {'j', [](T t, Padding padding) { return number(day_of_year(t) + 1, 3, padding); }},
    {'k', [](T t, Padding padding) { return number(t.hour, 2, padding_or(padding, Padding::blank)); }},
    {'l', [](T t, Padding padding) { return number(hour_of_12(t), 2, padding_or(padding, Padding::blank)); }},
    {'m', [](T t, Padding padding) { return number(t.month, 2, padding); }},
    {'M', [](T t, Padding padding) { return number(t.minute, 2, padding); }},
    {'n', [](T, Padding) { return std::string("\n"); }},
    {'p', [](T t, Padding) { return std::string(t.hour < 12 ? "AM" : "PM"); }},
    {'P', [](T t, Padding) { return std::string(t.hour < 12 ? "am" : "pm"); }},
    {'r', [](T t, Padding) { return time_text(t, "%I:%M:%S %p"); }},
    {'R', [](T t, Padding) { return time_text(t, "%H:%M"); }},
    {'S', [](T t, Padding padding) { return number(t.second, 2, padding); }},
    {'t', [](T, Padding) { return std::string("\t"); }},
    {'T', [](T t, Padding) { return time_text(t, "%H:%M:%S"); }},
    {'u', [](T t, Padding) { return number((day_of_week(t) + 6) % 7 + 1, 1, Padding::none); }},
    {'U', [](T t, Padding padding) { return number(week_of_year(t, 0), 2, padding); }},
    {'V', [](T t, Padding padding) { return number(iso_week(t).week, 2, padding); }},
    {'w', [](T t, Padding) { return number(day_of_week(t), 1, Padding::none); }},
    {'W', [](T t, Padding padding) { return number(week_of_year(t, 1), 2, padding); }},
    {'x', [](T t, Padding) { return time_text(t, "%m/%d/%y"); }},
    {'X', [](T t, Padding) { return time_text(t, "%H:%M:%S"); }},
    {'y', [](T t, Padding padding) { return number(t.year % 100, 2, padding); }},
    {'Y', [](T t, Padding padding) { return number(t.year, 4, padding_or(padding, Padding::none)); }},
    {'z', [](T, Padding) { return std::string(); }},
    {'Z', [](T, Padding) { return std::string(); }},
    {'%', [](T, Padding) { return std::string("%"); }},
};

// Returns the expansion of a directive; unknown directives stay unchanged.
std::string expanded(const LocalTime& t, char letter, Padding padding) {
  for (const Directive& directive : kDirectives) {
    if (directive.letter == letter) return directive.text(t, padding);
  }
  return std::string("%") + letter;
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
    out += expanded(time, letter, padding);
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

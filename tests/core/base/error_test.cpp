// Error with its parameter: set, kept by copies, given by wrappers, passed on by contain, and lost rather
// than fatal if there is no memory for it.
#include "core/base/error.h"

#include <string>
#include <type_traits>

#include <gtest/gtest.h>

#include "core/base/contain.h"
#include "core/base/message_text.h"
#include "tests/support/allocation_faults.h"

namespace quire {
namespace {

static_assert(std::is_nothrow_copy_constructible_v<Error> && std::is_nothrow_copy_assignable_v<Error>);

Error out_of_range() {
  return Error(ErrorCode::invalid_argument, "temperature is {}, must be 0 to 100", -1).at("temperature");
}

template <typename Action>
Error caught(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::ok, "nothing was thrown"};
}

TEST(Error, HasNoParameterUnlessOneIsSet) {
  EXPECT_EQ(Error(ErrorCode::io, "read failed").parameter(), "");
  EXPECT_EQ(Error(ErrorCode::io, "read failed").at("path").at("").parameter(), "");
}

TEST(Error, KeepsTheParameterBesideTheRest) {
  const Error error = Error(ErrorCode::quota, "full").at("namespace").retry_after(5);
  const Error copy = error;
  EXPECT_EQ(copy.parameter(), "namespace");
  EXPECT_EQ(copy.code(), ErrorCode::quota);
  EXPECT_EQ(copy.retry_after_ns(), 5);
  EXPECT_STREQ(copy.what(), "full");
}

TEST(Error, TheParameterSurvivesAThrow) {
  EXPECT_EQ(caught([] { throw out_of_range(); }).parameter(), "temperature");
}

TEST(Error, AParameterThatFindsNoMemoryIsLeftOut) {
  Error error(ErrorCode::invalid_argument, "a message that is longer than a short string");
  {
    const testing::AllocationFault fault(1, testing::FaultSpan::for_ever);
    std::move(error).at("a_parameter_that_is_longer_than_a_short_string");
    EXPECT_GT(fault.num_failed(), 0);
  }
  EXPECT_EQ(error.parameter(), "");
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_STREQ(error.what(), "a message that is longer than a short string");
}

TEST(WithParameter, NamesErrorsWithoutAParameter) {
  const auto fail = [] { throw Error(ErrorCode::format, "not valid JSON"); };
  EXPECT_EQ(caught([&] { with_parameter("tools", fail); }).parameter(), "tools");
  EXPECT_EQ(caught([] { with_parameter("request", [] { throw out_of_range(); }); }).parameter(),
            "temperature");
  EXPECT_EQ(with_parameter("tools", [] { return 3; }), 3);
}

TEST(WithParameter, KeepsTheTypeOfTheError) {
  struct Special : Error {
    using Error::Error;
  };
  EXPECT_THROW(with_parameter("tools", [] { throw Special(ErrorCode::format, "special"); }), Special);
}

TEST(ReplaceParameter, ReplacesTheName) {
  EXPECT_EQ(caught([] { replace_parameter("min_temperature", [] { throw out_of_range(); }); }).parameter(),
            "min_temperature");
  EXPECT_THROW(replace_parameter("tools", [] { throw std::bad_alloc(); }), std::bad_alloc);
}

TEST(Contain, PassesTheParameterToAReportThatTakesIt) {
  std::string parameter = "none";
  const auto report = [&](ErrorCode, std::string_view, std::string_view at_fault) { parameter = at_fault; };
  EXPECT_FALSE(contain(
      "no memory", [] { throw out_of_range(); }, report));
  EXPECT_EQ(parameter, "temperature");
  contain(
      "no memory", [] { throw std::bad_alloc(); }, report);
  EXPECT_EQ(parameter, "");
  std::string message;
  contain(
      "no memory", [] { throw out_of_range(); }, [&](ErrorCode, std::string_view what) { message = what; });
  EXPECT_EQ(message, "temperature is -1, must be 0 to 100");
}

TEST(Error, MessagesSetWithoutMemoryAreNeverEmpty) {
  std::string message;
  std::string parameter = "a parameter that is longer than a short string";
  {
    const testing::AllocationFault fault(1, testing::FaultSpan::for_ever);
    set_message(message, "a message that is longer than a short string");
    set_text(parameter, "another parameter that is much longer than the capacity of the first one");
  }
  EXPECT_EQ(message, kNoMemoryForMessage);
  EXPECT_EQ(parameter, "");
}

TEST(Error, TextsAreSetAsTheyAre) {
  std::string message;
  set_message(message, "two\nlines");
  EXPECT_EQ(message, "two\\x0alines");
  set_text(message, "two\nlines");
  EXPECT_EQ(message, "two\nlines");
}

}  // namespace
}  // namespace quire

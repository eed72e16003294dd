#include "core/base/json.h"

#include <cmath>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/fault_loop.h"

namespace quire {
namespace {

using testing::AllocationFault;
using testing::FaultPoint;
using testing::for_each_fault;
using testing::num_live_allocations;

std::string failure_of(const std::string& text, const JsonLimits& limits = {}) {
  try {
    (void)parse_json(text, "config.json", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::format);
    return error.what();
  }
  return "";
}

// Serializes a value as JSON.
std::string text_of(const JsonValue& value) {
  std::string text;
  if (const bool* const flag = value.as_bool()) return *flag ? "true" : "false";
  if (const int64_t* const number = value.as_int()) return std::to_string(*number);
  if (const double* const number = value.as_double()) return fmt::format("{}", *number);
  if (const std::string* const string = value.as_string()) return json_quoted(*string);
  if (const auto* const array = value.as_array()) {
    for (const JsonValue& item : *array) text += (text.empty() ? "" : ",") + text_of(item);
    return "[" + text + "]";
  }
  if (const auto* const object = value.as_object()) {
    for (const auto& [key, item] : *object)
      text += (text.empty() ? "" : ",") + json_quoted(key) + ":" + text_of(item);
    return "{" + text + "}";
  }
  return "null";
}

TEST(Json, KeepsTheOrderOfTheFile) {
  for (const char* const text :
       {R"({"z":1,"a":{"y":[1,-2.5,"x",null,true,{}]},"b":[]})",
        R"([-9223372036854775808,9223372036854775807])", R"("a \"quoted\" word")", "null"}) {
    EXPECT_EQ(text_of(parse_json(text, "t")), text);
  }
  const JsonValue beyond = parse_json("[9223372036854775808,18446744073709551615]", "t");
  EXPECT_EQ(*beyond.as_array()->at(0).as_double(), 0x1p63);
  EXPECT_EQ(*beyond.as_array()->at(1).as_double(), 0x1p64);
}

// A load that runs out of memory must be able to free the JSON it has read.
TEST(Json, ParsingAndDestroyingSurviveFailedAllocations) {
  std::string text =
      R"({"outer": {"long enough for memory of its own": [[1, 2], {"a": {"b": ["c"]}}]}, "list": [)";
  for (int i = 0; i < 40; ++i)
    text += fmt::format(R"({{"name {}": ["some text that is not short", {}]}},)", i, i);
  text += "0]}";
  const int64_t num_points = for_each_fault([&](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << point);
    const int64_t live_before = num_live_allocations();
    bool failed = false;
    {
      const AllocationFault fault(point.nth, point.span);
      try {
        (void)parse_json(text, "t");
      } catch (const std::bad_alloc&) {
        failed = true;
      }
      EXPECT_EQ(failed, fault.num_failed() > 0);
    }
    EXPECT_EQ(num_live_allocations(), live_before);
    return failed && !::testing::Test::HasFailure();
  });
  EXPECT_GT(num_points, 200);
}

TEST(Json, CopyingSurvivesFailedAllocations) {
  const std::string text =
      R"({"outer":{"a name that is long enough for memory of its own":[[1,2.5],{"a":{"b":["some text that is long"]}}]},)"
      R"("list":[null,true,[],{},"another text that is long enough"]})";
  const JsonValue value = parse_json(text, "t");
  const int64_t num_points = for_each_fault([&](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << point);
    const int64_t live_before = num_live_allocations();
    bool failed = false;
    {
      const AllocationFault fault(point.nth, point.span);
      try {
        (void)value.copy();
      } catch (const std::bad_alloc&) {
        failed = true;
      }
      EXPECT_EQ(failed, fault.num_failed() > 0);
    }
    EXPECT_EQ(num_live_allocations(), live_before);
    EXPECT_EQ(text_of(value.copy()), text);
    return failed && !::testing::Test::HasFailure();
  });
  EXPECT_GT(num_points, 20);
}

TEST(Json, QuotesAnyText) {
  EXPECT_EQ(json_quoted("a\"\n\\"), R"("a\"\n\\")");
  EXPECT_EQ(json_quoted("\xff"), "\"\xef\xbf\xbd\"");
}

TEST(Json, DuplicateKeysAreRefusedAtAnyLevel) {
  EXPECT_NE(failure_of(R"({"a": 1, "a": 2})").find("\"a\" appears twice"), std::string::npos);
  EXPECT_NE(failure_of(R"({"x": [{"b": {"c": 1, "c": 1}}]})").find("\"c\" appears twice"), std::string::npos);
  EXPECT_EQ(failure_of(R"({"x": {"b": 1}, "y": {"b": 1}})"), "");
  // The same key, written with an escape.
  EXPECT_NE(failure_of(R"({"a": 1, "\u0061": 2})"), "");
}

TEST(Json, DepthIsLimited) {
  EXPECT_EQ(failure_of(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_NE(failure_of(std::string(65, '[') + std::string(65, ']')).find("deeper than 64"),
            std::string::npos);
  EXPECT_NE(failure_of(std::string(2'000'000, '[')).find("deeper than 64"), std::string::npos);
}

TEST(Json, ErrorOfMalformedTextIsOneLineWithAnOffset) {
  for (const char* text : {"", "{", "{\"a\":}", "[1,]", "nul", "{\"a\":1}}", "\"abc", "{'a':1}", "1e999",
                           "[NaN]", "\xff", "{\"a\":\"\xed\xa0\x80\"}", "// x\n{}", "[01]"}) {
    const std::string message = failure_of(text);
    EXPECT_NE(message, "") << text;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(Json, NumbersOfPythonAreReadOnRequest) {
  const JsonLimits limits = {.python_numbers = true};
  const std::string beyond(400, '9');
  const JsonValue value = parse_json(
      R"({"list": [NaN, Infinity, -Infinity, 1e999, -1e999, 0e0, 1e-999, 2.5], "NaN": "Infinity \" NaN", "n": )" +
          beyond + "}",
      "f", limits);
  const JsonValue::Array& list = *value.find("list")->as_array();
  EXPECT_TRUE(std::isnan(*list[0].as_double()));
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> expected = {infinity, -infinity, infinity, -infinity, 0.0, 0.0, 2.5};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(*list[i + 1].as_double(), expected[i]) << i;
  EXPECT_EQ(*value.find("NaN")->as_string(), "Infinity \" NaN");
  EXPECT_EQ(*value.find("n")->as_double(), infinity);
  EXPECT_THROW(JsonView(list[1], "f").as_int(0, 10), Error);
  EXPECT_THROW(JsonView(list[1], "f").as_number(0.0, 10.0), Error);
  EXPECT_THROW(JsonView(list[0], "f").as_number(-infinity, infinity), Error);
  EXPECT_EQ(JsonView(list[1], "f").as_number(0.0, infinity), infinity);
}

TEST(Json, NumbersOfPythonMustBeWholeTokens) {
  for (const char* text : {"[1NaN]", "[NaN5]", "[-NaN]", "[+Infinity]", "[Infinityx]", "[Inf]", "[nan]",
                           "{NaN: 1}", "[NaN", "[\"NaN]", "[1e999e1]"}) {
    EXPECT_THROW(parse_json(text, "f", {.python_numbers = true}), Error) << text;
  }
}

TEST(Json, TextAfterANulIsRefused) {
  EXPECT_NE(failure_of(std::string("{}\0", 3)).find("line 1, column 3"), std::string::npos);
  EXPECT_NE(failure_of(std::string("{}\0{\"a\": 1}", 11)), "");
}

TEST(Json, SizeIsLimited) {
  EXPECT_NE(failure_of("[1,2,3]", {.max_bytes = 3}).find("more than the limit"), std::string::npos);
}

TEST(JsonView, TypedReadsNameTheField) {
  const JsonValue value =
      parse_json(R"({"n": 3, "whole": 8.0, "f": 0.5, "s": "x", "b": true, "null": null, "big": 1e300,
                                    "huge": 18446744073709551615, "list": [1, "two"]})",
                 "config.json");
  const JsonView view(value, "config.json");
  EXPECT_EQ(view.at("n").as_int(0, 10), 3);
  EXPECT_EQ(view.at("whole").as_int(0, 10), 8);
  EXPECT_EQ(view.int_or("absent", 7, 0, 10), 7);
  EXPECT_EQ(view.int_or("null", 7, 0, 10), 7);
  EXPECT_FALSE(view.has("null"));
  EXPECT_EQ(view.at("s").as_string(), "x");
  const auto message = [](auto&& read) -> std::string {
    try {
      (void)read();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { return view.at("n").as_int(5, 10); }),
            "config.json.n must be a whole number from 5 to 10");
  EXPECT_NE(message([&] { return view.at("huge").as_int(0, INT64_MAX - 1); }), "");
  EXPECT_NE(message([&] { return view.at("f").as_int(0, 10); }), "");
  EXPECT_NE(message([&] { return view.at("big").as_int(0, 10); }), "");
  EXPECT_NE(message([&] { return view.at("s").as_bool(); }), "");
  EXPECT_NE(message([&] { return view.at("big").as_number(0, 1e9); }), "");
  EXPECT_EQ(message([&] { return view.at("missing").elements().size(); }), "config.json.missing is missing");
  EXPECT_EQ(message([&] { return view.at("list").items()[1].as_int(0, 1); }),
            "config.json.list[1] must be a whole number from 0 to 1");
}

}  // namespace
}  // namespace quire

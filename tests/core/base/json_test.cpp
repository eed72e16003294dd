#include "core/base/json.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace quire {
namespace {

std::string failure_of(const std::string& text, const JsonLimits& limits = {}) {
  try {
    (void)parse_json(text, "config.json", limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::format);
    return error.what();
  }
  return "";
}

TEST(Json, KeepsTheOrderOfTheFile) {
  const Json value = parse_json(R"({"z": 1, "a": {"y": [1, 2.5, "x", null, true]}})", "t");
  EXPECT_EQ(value.begin().key(), "z");
  EXPECT_EQ(value["a"]["y"].size(), 5U);
  EXPECT_EQ(value.dump(), R"({"z":1,"a":{"y":[1,2.5,"x",null,true]}})");
}

TEST(Json, DuplicateKeysAreRefusedAtAnyLevel) {
  EXPECT_NE(failure_of(R"({"a": 1, "a": 2})").find("\"a\" appears twice"), std::string::npos);
  EXPECT_NE(failure_of(R"({"x": [{"b": {"c": 1, "c": 1}}]})").find("\"c\" appears twice"), std::string::npos);
  EXPECT_EQ(failure_of(R"({"x": {"b": 1}, "y": {"b": 1}})"), "");
  // The same key spelled with an escape.
  EXPECT_NE(failure_of(R"({"a": 1, "\u0061": 2})"), "");
}

TEST(Json, DepthIsBounded) {
  EXPECT_EQ(failure_of(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_NE(failure_of(std::string(65, '[') + std::string(65, ']')).find("deeper than 64"),
            std::string::npos);
  EXPECT_NE(failure_of(std::string(2'000'000, '[')).find("deeper than 64"), std::string::npos);
}

TEST(Json, MalformedTextIsOneLineWithAnOffset) {
  for (const char* text : {"", "{", "{\"a\":}", "[1,]", "nul", "{\"a\":1}}", "\"abc", "{'a':1}", "1e999",
                           "[NaN]", "\xff", "{\"a\":\"\xed\xa0\x80\"}", "// x\n{}", "[01]"}) {
    const std::string message = failure_of(text);
    EXPECT_NE(message, "") << text;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(Json, NothingHidesBehindANul) {
  EXPECT_NE(failure_of(std::string("{}\0", 3)).find("at byte 2"), std::string::npos);
  EXPECT_NE(failure_of(std::string("{}\0{\"a\": 1}", 11)), "");
}

TEST(Json, SizeIsBounded) {
  EXPECT_NE(failure_of("[1,2,3]", {.max_bytes = 3}).find("more than the limit"), std::string::npos);
}

TEST(JsonView, TypedReadsNameTheField) {
  const Json value =
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
  EXPECT_EQ(message([&] { return view.at("missing").raw().size(); }), "config.json.missing is missing");
  EXPECT_EQ(message([&] { return view.at("list").items()[1].as_int(0, 1); }),
            "config.json.list[1] must be a whole number from 0 to 1");
}

}  // namespace
}  // namespace quire

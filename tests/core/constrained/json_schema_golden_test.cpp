// JSON Schema: the official test suite and schemas from practice.
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/constrained/constraint_fixture.h"
#include "tests/support/golden_schemas.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

struct Tally {
  int right = 0;
  int wrong = 0;
  int refused = 0;
  std::map<std::string, int> reasons;
};

void check(const std::shared_ptr<const Constraint>& constraint, const Json& value, bool valid,
           const std::string& what, Tally& tally) {
  for (const std::string& text : {value.dump(), spaced(value), value.dump(2)}) {
    bool accepted = false;
    try {
      accepted = accepts(constraint, text);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what() << "\n" << what;
      return;
    }
    (accepted == valid ? tally.right : tally.wrong) += 1;
    EXPECT_EQ(accepted, valid) << what << "\n" << text;
  }
  try {
    EXPECT_EQ(accepts_tokens(constraint, value.dump()), valid) << what;
  } catch (const std::logic_error& error) {
    ADD_FAILURE() << error.what() << "\n" << what;
  }
}

std::shared_ptr<const Constraint> compile_or_count(const Json& schema, Tally& tally,
                                                   const std::string& what) {
  try {
    return compile(ConstraintKind::json_schema, schema.dump());
  } catch (const Error& error) {
    ++tally.refused;
    ++tally.reasons[std::string(error.what()).substr(0, 90)];
    if (getenv("VERBOSE") != nullptr) std::cout << "refused " << what << ": " << error.what() << "\n";
    return nullptr;
  }
}

void report(const Tally& tally) {
  EXPECT_GT(tally.right, 0);
  std::cout << tally.right << " right, " << tally.wrong << " wrong, " << tally.refused
            << " schemas refused\n";
  for (const auto& [reason, count] : tally.reasons) std::cout << "  " << count << " x " << reason << "\n";
}

void run_suite(const std::string& draft) {
  const std::map<std::string, std::string> uris = {
      {"draft2020-12", "https://json-schema.org/draft/2020-12/schema"},
      {"draft2019-09", "https://json-schema.org/draft/2019-09/schema"},
      {"draft7", "http://json-schema.org/draft-07/schema#"}};
  Tally tally;
  for (const std::string& file : testing::golden_schemas("suite/" + draft)) {
    for (const Json& group : read_json_file(file)) {
      Json schema = group["schema"];
      if (schema.is_object() && !schema.contains("$schema")) schema["$schema"] = uris.at(draft);
      const std::string what =
          fs::path(file).filename().string() + ": " + group["description"].get<std::string>();
      // Custom metaschemas that disable keywords are not supported.
      if (what.find("custom metaschema") != std::string::npos) continue;
      const auto constraint = compile_or_count(schema, tally, what);
      if (constraint == nullptr) continue;
      for (const Json& test : group["tests"]) {
        check(constraint, test["data"], test["valid"],
              what + ": " + test["description"].get<std::string>() + "\n" + schema.dump(), tally);
      }
    }
  }
  report(tally);
}

TEST(JsonSchemaGolden, SuiteOfDraft202012) {
  run_suite("draft2020-12");
}

TEST(JsonSchemaGolden, SuiteOfDraft201909) {
  run_suite("draft2019-09");
}

TEST(JsonSchemaGolden, SuiteOfDraft7) {
  run_suite("draft7");
}

TEST(JsonSchemaGolden, RealSchemas) {
  Tally tally;
  int num_schemas = 0;
  for (const std::string& file : testing::golden_schemas("real")) {
    const Json test = read_json_file(file);
    ++num_schemas;
    const auto constraint = compile_or_count(test["schema"], tally, file);
    if (constraint == nullptr) continue;
    for (const Json& value : test["valid"]) check(constraint, value, true, file, tally);
    for (const Json& value : test["invalid"]) check(constraint, value, false, file, tally);
  }
  report(tally);
  EXPECT_LE(tally.refused * 20, num_schemas);
}

TEST(JsonSchemaGolden, ArgumentsOfTools) {
  Tally tally;
  for (const std::string& file : testing::golden_schemas("tools")) {
    const Json test = read_json_file(file);
    std::map<std::string, Json> schemas;
    for (const Json& tool : test["tools"]) {
      const Json& function = tool.contains("function") ? tool["function"] : tool;
      schemas[function["name"]] = function["parameters"];
    }
    for (const Json& call : test["calls"]) {
      const auto constraint = compile_or_count(schemas.at(call["name"]), tally, file);
      if (constraint != nullptr) check(constraint, call["arguments"], true, file, tally);
    }
  }
  report(tally);
}

}  // namespace
}  // namespace quire

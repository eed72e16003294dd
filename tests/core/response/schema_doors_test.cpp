// A schema means the same wherever it is embedded: alone, as the format of an answer, in a structural tag,
// and as the arguments of a tool in a dialect with JSON and in one with parameters.
#include <algorithm>
#include <filesystem>
#include <map>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/constrained/constraint.h"
#include "core/response/response_grammar.h"
#include "tests/core/response/response_fixture.h"
#include "tests/support/file_text.h"
#include "tests/support/golden_schemas.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

const std::shared_ptr<const TokenVocabulary>& bytes_vocabulary() {
  static const auto* const made = [] {
    std::vector<std::string> bytes;
    for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
    bytes.emplace_back();
    std::unordered_map<std::string, TokenId> names{{"<eos>", 256}};
    return new std::shared_ptr<const TokenVocabulary>(
        std::make_shared<const TokenVocabulary>(std::move(bytes), std::move(names), TokenIds{256}));
  }();
  return *made;
}

std::shared_ptr<const Constraint> of_schema(const Json& schema) {
  return Constraint::compile(ConstraintKind::json_schema, schema.dump(), bytes_vocabulary());
}

std::shared_ptr<const Constraint> of_rules(const std::string& dialect, Json rules,
                                           const JsonForm& form = {}) {
  rules["dialect"] = dialect;
  const ResponseRules parsed = parse_response_rules(rules.dump(), find_dialect(dialect));
  return Constraint::compile(ConstraintKind::lark, response_grammar(parsed, {}), bytes_vocabulary(), {},
                             form);
}

Json format_rules(const Json& schema) {
  return {
      {"reasoning", "off"},
      {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}}}};
}

Json tag_rules(const Json& schema) {
  return {{"reasoning", "off"},
          {"response_format",
           {{"type", "structural_tag"},
            {"triggers", {"<x>"}},
            {"structures", {{{"begin", "<x>"}, {"schema", schema}, {"end", "</x>"}}}}}}};
}

Json tool_rules(const Json& parameters) {
  return {{"reasoning", "off"},
          {"tool_choice", "required"},
          {"tools", {{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", parameters}}}}}}};
}

bool accepts(const std::shared_ptr<const Constraint>& constraint, std::string_view text) {
  Matcher matcher(constraint);
  return matcher.accept_text(text) && matcher.may_end();
}

std::string call_of_hermes(const std::string& arguments) {
  return "<tool_call>\n{\"name\": \"f\", \"arguments\": " + arguments + "}\n</tool_call>";
}

// Writes a call as qwen3_coder does: strings without quotes, everything else as JSON.
std::string call_of_coder(const Json& parameters, const Json& arguments) {
  std::string text = "<tool_call>\n<function=f>\n";
  for (const auto& [name, schema] : parameters["properties"].items()) {
    if (!arguments.contains(name)) continue;
    const Json& value = arguments[name];
    text += "<parameter=" + name + ">\n" +
            (value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', true)) + "\n</parameter>\n";
  }
  return text + "</function>\n</tool_call>";
}

// As Pydantic writes a nested model: definitions, references, an optional choice and a list.
const Json& nested() {
  static const Json* const schema = new Json(Json::parse(R"({
    "$defs": {"Color": {"enum": ["red", "green"], "title": "Color", "type": "string"},
              "Point": {"properties": {"x": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}],
                        "default": null}}, "required": ["x"], "title": "Point", "type": "object"}},
    "properties": {"color": {"$ref": "#/$defs/Color"}, "start": {"$ref": "#/$defs/Point"},
                   "other": {"anyOf": [{"$ref": "#/$defs/Color"}, {"type": "null"}], "default": null},
                   "shade": {"allOf": [{"$ref": "#/$defs/Color"}], "default": "red"},
                   "points": {"items": {"$ref": "#/$defs/Point"}, "type": "array"}},
    "required": ["color", "start"], "title": "Drawing", "type": "object"})"));
  return *schema;
}

TEST(SchemaDoors, ReferencesResolveThroughEveryDoor) {
  const std::string valid = R"({"color": "red", "start": {"x": 1, "next": {"x": 2}}, "other": "green"})";
  const std::string invalid = R"({"color": "blue", "start": {"x": 1}})";
  const auto alone = of_schema(nested());
  const auto format = of_rules("hermes", format_rules(nested()));
  const auto tag = of_rules("hermes", tag_rules(nested()));
  const auto call = of_rules("hermes", tool_rules(nested()));
  EXPECT_TRUE(accepts(alone, valid) && !accepts(alone, invalid));
  EXPECT_TRUE(accepts(format, valid) && !accepts(format, invalid));
  EXPECT_TRUE(accepts(tag, "<x>" + valid + "</x>") && !accepts(tag, "<x>" + invalid + "</x>"));
  EXPECT_TRUE(accepts(call, call_of_hermes(valid)) && !accepts(call, call_of_hermes(invalid)));
  const auto coder = of_rules("qwen3_coder", tool_rules(nested()));
  EXPECT_TRUE(accepts(coder, call_of_coder(nested(), Json::parse(valid))));
  EXPECT_FALSE(accepts(coder, call_of_coder(nested(), Json::parse(invalid))));
  EXPECT_TRUE(accepts(coder, call_of_coder(nested(), Json::parse(R"({"color": "green", "start": {"x": 3},
      "other": null, "shade": "green", "points": [{"x": 1}, {"x": 2, "next": null}]})"))));
}

TEST(SchemaDoors, TheRootOfAReferenceIsTheEmbeddedSchema) {
  const Json tree = Json::parse(R"({"type": "object", "properties": {"value": {"type": "integer"},
      "children": {"type": "array", "items": {"$ref": "#"}}, "first": {"$ref": "#/properties/value"}},
      "required": ["value"]})");
  const std::string valid = R"({"value": 1, "children": [{"value": 2, "children": []}], "first": 3})";
  const std::string invalid = R"({"value": 1, "children": [{"children": []}]})";
  for (const auto& [dialect, rules] : std::map<std::string, Json>{{"hermes", format_rules(tree)}}) {
    EXPECT_TRUE(accepts(of_rules(dialect, rules), valid));
    EXPECT_FALSE(accepts(of_rules(dialect, rules), invalid));
  }
  const auto coder = of_rules("qwen3_coder", tool_rules(tree));
  EXPECT_TRUE(accepts(coder, call_of_coder(tree, Json::parse(valid))));
  EXPECT_FALSE(accepts(coder, call_of_coder(tree, Json::parse(invalid))));
}

// zod-to-json-schema writes the whole schema as a definition.
TEST(SchemaDoors, ParametersMayBeOneReference) {
  const Json parameters =
      Json::parse(R"({"$ref": "#/definitions/args", "$schema": "http://json-schema.org/draft-07/schema#",
      "definitions": {"args": {"type": "object", "properties": {"day": {"$ref": "#/definitions/day"}},
                               "required": ["day"], "additionalProperties": false},
                      "day": {"type": "integer", "minimum": 1, "exclusiveMaximum": 32}}})");
  const auto call = of_rules("hermes", tool_rules(parameters));
  EXPECT_TRUE(accepts(call, call_of_hermes(R"({"day": 3})")));
  EXPECT_FALSE(accepts(call, call_of_hermes(R"({"day": 32})")));
  const auto coder = of_rules("qwen3_coder", tool_rules(parameters));
  const std::string begin = "<tool_call>\n<function=f>\n<parameter=day>\n";
  const std::string end = "\n</parameter>\n</function>\n</tool_call>";
  EXPECT_TRUE(accepts(coder, begin + "31" + end));
  EXPECT_FALSE(accepts(coder, begin + "32" + end));
  EXPECT_FALSE(accepts(coder, "<tool_call>\n<function=f>\n</function>\n</tool_call>"));
}

TEST(SchemaDoors, NestedIdsResolve) {
  const Json schema = Json::parse(R"({"$id": "https://example.org/root", "type": "object",
      "properties": {"a": {"$ref": "item#/$defs/n"}, "b": {"$ref": "item"}},
      "$defs": {"x": {"$id": "item", "$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}}, "required": ["a", "b"]})");
  EXPECT_TRUE(accepts(of_rules("hermes", format_rules(schema)), R"({"a": 1, "b": 2})"));
  EXPECT_FALSE(accepts(of_rules("hermes", format_rules(schema)), R"({"a": 1, "b": "x"})"));
  EXPECT_TRUE(
      accepts(of_rules("qwen3_coder", tool_rules(schema)), call_of_coder(schema, {{"a", 1}, {"b", 2}})));
}

TEST(SchemaDoors, ACallWithReferencesIsReadBackWithItsTypes) {
  const Json tools = tool_rules(nested())["tools"];
  const std::string text =
      "<tool_call>\n<function=f>\n<parameter=color>\nred\n</parameter>\n<parameter=start>\n{\"x\": "
      "1}\n</parameter>\n<parameter=other>\nnull\n</parameter>\n</function>\n</tool_call>";
  const Answer answer{&find_dialect("qwen3_coder"), tools.dump(), ReasoningStart::off, "", text};
  const ReadResponse response = read_events(events_of(answer));
  ASSERT_EQ(response.calls.size(), 1U);
  EXPECT_EQ(Json::parse(response.calls[0].arguments),
            Json::parse(R"({"color": "red", "start": {"x": 1}, "other": null})"));
}

// A string that the schema allows beside other types is written without quotes, unless it reads as one of
// them.
TEST(SchemaDoors, UnquotedStringsStandBesideOtherTypes) {
  const Json parameters = Json::parse(R"({"type": "object", "properties": {
      "v": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}, "required": ["v"]})");
  const auto coder = of_rules("qwen3_coder", tool_rules(parameters));
  const auto call = [](const std::string& value) {
    return "<tool_call>\n<function=f>\n<parameter=v>\n" + value + "\n</parameter>\n</function>\n</tool_call>";
  };
  EXPECT_TRUE(accepts(coder, call("red")));
  EXPECT_TRUE(accepts(coder, call("5")));
  EXPECT_FALSE(accepts(coder, call("5.5"))) << "reads as a number that is no integer";
  EXPECT_TRUE(accepts(coder, call("5.5 metres")));
}

TEST(SchemaDoors, AlternativesOfUnquotedStringsAreAllAllowed) {
  const Json parameters = Json::parse(R"({"type": "object", "$defs": {"warm": {"enum": ["red", "orange"]}},
      "properties": {"v": {"anyOf": [{"$ref": "#/$defs/warm"}, {"const": "blue"}]}}, "required": ["v"]})");
  const auto coder = of_rules("qwen3_coder", tool_rules(parameters));
  for (const char* const word : {"red", "orange", "blue"})
    EXPECT_TRUE(accepts(coder, call_of_coder(parameters, {{"v", word}}))) << word;
  EXPECT_FALSE(accepts(coder, call_of_coder(parameters, {{"v", "green"}})));
}

// Otherwise the string would be missing among the values.
TEST(SchemaDoors, ConditionsOnUnquotedStringsAreRefusedBesideOtherTypes) {
  for (const char* const schema : {R"({"type": ["string", "null"], "maxLength": 5})",
                                   R"({"anyOf": [{"type": "string", "pattern": "^a"}, {"type": "null"}]})",
                                   R"({"not": {"type": "null"}})"}) {
    const Json parameters{{"type", "object"}, {"properties", {{"v", Json::parse(schema)}}}};
    try {
      of_rules("qwen3_coder", tool_rules(parameters));
      ADD_FAILURE() << schema;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find("\"v\" without quotes"), std::string::npos) << error.what();
    }
  }
}

TEST(SchemaDoors, AlternativesThatReferToThemselvesEndSoon) {
  Json branches = Json::array();
  for (int i = 0; i < 10; ++i) branches.push_back({{"$ref", "#/properties/v"}});
  const Json parameters{{"type", "object"}, {"properties", {{"v", {{"anyOf", branches}}}}}};
  const Json tools = tool_rules(parameters)["tools"];
  EXPECT_THROW(of_rules("qwen3_coder", tool_rules(parameters)), Error);
  const Answer answer{
      &find_dialect("qwen3_coder"), tools.dump(), ReasoningStart::off, "",
      "<tool_call>\n<function=f>\n<parameter=v>\nred\n</parameter>\n</function>\n</tool_call>"};
  EXPECT_EQ(read_events(events_of(answer)).calls.at(0).arguments, R"({"v": "red"})");
}

// What went through the doors, and why schemas were refused that a constraint alone supports.
struct Doors {
  int schemas = 0;
  int texts = 0;
  std::map<std::string, int> refused;

  // Returns nothing if the door refuses the schema.
  std::shared_ptr<const Constraint> open(const std::string& dialect, const Json& rules) {
    try {
      return of_rules(dialect, rules);
    } catch (const Error& error) {
      ++refused[std::string(error.what()).substr(0, 100)];
      return nullptr;
    }
  }
};

void expect_same(const std::shared_ptr<const Constraint>& door, const std::string& text, bool valid,
                 const std::string& what, Doors& doors) {
  if (door == nullptr) return;
  ++doors.texts;
  EXPECT_EQ(accepts(door, text), valid) << what << "\n" << text;
}

void go_through(const Json& schema, const Json& instances, const std::string& what, Doors& doors) {
  std::shared_ptr<const Constraint> alone;
  try {
    alone = of_schema(schema);
  } catch (const Error&) {
    return;
  }
  ++doors.schemas;
  const auto format = doors.open("hermes", format_rules(schema));
  const auto tag = doors.open("hermes", tag_rules(schema));
  const bool is_object =
      schema.is_object() && schema.value("type", Json()) == "object" && !schema.contains("$ref");
  const auto call = is_object ? doors.open("hermes", tool_rules(schema)) : nullptr;
  const auto coder =
      is_object && schema.contains("properties") ? doors.open("qwen3_coder", tool_rules(schema)) : nullptr;
  for (const Json& instance : instances) {
    const std::string text = instance.dump(-1, ' ', true);
    const bool valid = accepts(alone, text);
    expect_same(format, text, valid, what + " as a format", doors);
    expect_same(tag, "<x>" + text + "</x>", valid, what + " in a tag", doors);
    expect_same(call, call_of_hermes(text), valid, what + " in a call", doors);
    if (coder == nullptr || !valid || !instance.is_object()) continue;
    // A parameter's own schema decides; conditions across parameters and unnamed members have no place in a
    // call.
    const bool has_others =
        std::any_of(instance.items().begin(), instance.items().end(),
                    [&](const auto& member) { return !schema["properties"].contains(member.key()); });
    if (!has_others)
      expect_same(coder, call_of_coder(schema, instance), true, what + " in parameters", doors);
  }
}

void report(const Doors& doors) {
  std::cout << doors.schemas << " schemas, " << doors.texts << " texts\n";
  for (const auto& [reason, count] : doors.refused) std::cout << "  " << count << " x " << reason << "\n";
}

TEST(SchemaDoorsGolden, RealSchemasMeanTheSame) {
  Doors doors;
  for (const std::string& file : testing::golden_schemas("real")) {
    const Json test = Json::parse(testing::file_text(file));
    Json instances = test["valid"];
    for (const Json& value : test["invalid"]) instances.push_back(value);
    go_through(test["schema"], instances, fs::path(file).filename(), doors);
  }
  report(doors);
  for (const auto& [reason, count] : doors.refused)
    EXPECT_EQ(reason.find("$ref"), std::string::npos) << reason;
}

TEST(SchemaDoorsGolden, ArgumentsOfToolsMeanTheSame) {
  Doors doors;
  for (const std::string& file : testing::golden_schemas("tools")) {
    const Json test = Json::parse(testing::file_text(file));
    for (const Json& call : test["calls"]) {
      for (const Json& tool : test["tools"]) {
        const Json& function = tool.contains("function") ? tool["function"] : tool;
        if (function["name"] == call["name"])
          go_through(function["parameters"], Json::array({call["arguments"]}), fs::path(file).filename(),
                     doors);
      }
    }
  }
  report(doors);
  EXPECT_TRUE(doors.refused.empty());
}

}  // namespace
}  // namespace quire

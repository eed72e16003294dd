#include "core/response/argument_grammar.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/response/json_text.h"

namespace quire {
namespace {

// Members that a document of arguments gets: the schemas of its properties, and the same without strings.
constexpr std::string_view kValues = ".values";
constexpr std::string_view kNoStrings = ".values_without_strings";

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  for (const std::string_view each : keys) {
    if (key == each) return true;
  }
  return false;
}

bool is_reference(std::string_view key) {
  return is_one_of(key, {"$ref", "$dynamicRef", "$recursiveRef"});
}

// Returns whether a keyword limits the strings of a schema otherwise than by listing them.
bool limits_strings(std::string_view key) {
  return is_reference(key) ||
         is_one_of(key, {"pattern", "minLength", "maxLength", "allOf", "anyOf", "oneOf", "not", "if"});
}

bool has_reference(const JsonValue& value) {
  if (const JsonValue::Array* const items = value.as_array())
    return std::any_of(items->begin(), items->end(), has_reference);
  if (value.as_object() == nullptr) return false;
  return std::any_of(value.as_object()->begin(), value.as_object()->end(), [](const JsonMember& member) {
    return is_reference(member.key) || has_reference(member.value);
  });
}

// Returns whether a schema means something else outside of the document of the tool.
bool needs_document(const ToolSet::Tool& tool, const Property& property) {
  if (property.schema.schema == nullptr) return false;
  return tool.parameters.find("$schema") != nullptr || has_reference(*property.schema.schema);
}

JsonValue list_of(JsonValue first, JsonValue second) {
  JsonValue::Array list;
  list.push_back(std::move(first));
  list.push_back(std::move(second));
  return JsonValue(std::move(list));
}

JsonValue object_of(std::string_view key, JsonValue value) {
  return JsonValue(JsonValue::Object{}).copy_with(key, std::move(value));
}

JsonValue copy_of(const SchemaInDocument& schema) {
  const bool is_any = schema.schema == nullptr || schema.schema->as_object() == nullptr;
  return is_any ? JsonValue(JsonValue::Object{}) : schema.schema->copy();
}

JsonValue without_strings(JsonValue schema) {
  JsonValue no_string = object_of("not", object_of("type", JsonValue(std::string("string"))));
  return object_of("allOf", list_of(std::move(schema), std::move(no_string)));
}

// Returns whether the branches of a schema are its only condition.
bool has_only_branches(const JsonValue& schema, std::string_view key) {
  const JsonValue::Object& keywords = *schema.as_object();
  return std::none_of(keywords.begin(), keywords.end(), [&](const JsonMember& member) {
    return member.key != key &&
           (limits_strings(member.key) || is_one_of(member.key, {"enum", "const", "type"}));
  });
}

}  // namespace

std::vector<Property> properties_of(const ToolSet::Tool& tool) {
  const JsonValue& whole = *SchemaInDocument{&tool.parameters, &tool.parameters}.target().schema;
  std::vector<Property> properties;
  const JsonValue* members = whole.find("properties");
  if (members != nullptr && members->as_object() != nullptr) {
    for (const JsonMember& member : *members->as_object())
      properties.push_back({member.key, {&member.value, &tool.parameters}, false});
  }
  const JsonValue* required = whole.find("required");
  if (required == nullptr || required->as_array() == nullptr) return properties;
  for (const JsonValue& name : *required->as_array()) {
    if (name.as_string() == nullptr) continue;
    const auto same = [&](const Property& property) { return property.name == *name.as_string(); };
    const auto found = std::find_if(properties.begin(), properties.end(), same);
    if (found != properties.end()) {
      found->required = true;
    } else {
      properties.push_back({*name.as_string(), {}, true});
    }
  }
  return properties;
}

std::string ArgumentValues::json_value(const ToolSet::Tool& tool, const Property& property) {
  if (!needs_document(tool, property)) return "%json " + json_text(copy_of(property.schema));
  return referred_value(tool, property, kValues);
}
std::string ArgumentValues::json_value_without_strings(const ToolSet::Tool& tool, const Property& property) {
  if (!needs_document(tool, property)) return "%json " + json_text(without_strings(copy_of(property.schema)));
  return referred_value(tool, property, kNoStrings);
}

// Returns the item for a value whose schema has references: a part of the document that they lead into. The
// document is written once for all properties of a tool.
std::string ArgumentValues::referred_value(const ToolSet::Tool& tool, const Property& property,
                                           std::string_view list) {
  const std::vector<Property> properties = properties_of(tool);
  const auto [known, is_new] = document_names_.emplace(tool.name, fmt::format("d{}", document_names_.size()));
  if (is_new) {
    JsonValue::Array values;
    JsonValue::Array no_strings;
    for (const Property& each : properties) {
      values.push_back(copy_of(each.schema));
      no_strings.push_back(without_strings(copy_of(each.schema)));
    }
    const JsonValue document = tool.parameters.copy_with(kValues, JsonValue(std::move(values)))
                                   .copy_with(kNoStrings, JsonValue(std::move(no_strings)));
    documents_ += fmt::format("%schema {} {}\n", known->second, json_text(document));
  }
  const auto at = std::find_if(properties.begin(), properties.end(),
                               [&](const Property& each) { return each.name == property.name; });
  return fmt::format("%json {} \"#/{}/{}\"", known->second, list, at - properties.begin());
}

bool ArgumentValues::is_simple(const SchemaInDocument& schema) {
  if (schema.schema == nullptr || schema.schema->as_object() == nullptr) return true;
  const JsonValue::Object& keywords = *schema.schema->as_object();
  return std::none_of(keywords.begin(), keywords.end(),
                      [](const JsonMember& member) { return limits_strings(member.key); });
}

void ArgumentValues::refuse(const Unquoted& value) const {
  throw Error(
      ErrorCode::unsupported,
      "tools: the dialect {} writes \"{}\" without quotes; for such strings only type, enum and const "
      "are supported",
      dialect_.name, printable(value.name))
      .at("tools");
}

std::string ArgumentValues::text_value(const SchemaInDocument& schema, const Unquoted& value) const {
  const SchemaInDocument target = schema.target();
  if (!is_simple(target)) refuse(value);
  const JsonValue* one = target.schema == nullptr ? nullptr : target.schema->find("const");
  const JsonValue* several = target.schema == nullptr ? nullptr : target.schema->find("enum");
  const bool has_words = one != nullptr || (several != nullptr && several->as_array() != nullptr);
  if (!has_words) return free_value(value);
  std::string words;
  const auto add_word = [&](const JsonValue& word) {
    const std::string* const text = word.as_string();
    if (text != nullptr && reads_as_text(*text, value.types))
      words += (words.empty() ? "" : " | ") + lark_text(*text);
  };
  if (one != nullptr) add_word(*one);
  if (one == nullptr) std::for_each(several->as_array()->begin(), several->as_array()->end(), add_word);
  return words.empty() ? "" : "(" + words + ")";
}

bool ArgumentValues::reads_as_text(std::string_view text, ValueTypes types) const {
  PlainValue plain;
  plain.types = types;
  plain.python = dialect_.forms[0].tagged.parameter.python;
  return json_of_plain(text, plain).front() == '"';
}

// Leaves out what the parser takes for the end of a value without a closing mark: the next argument, or the
// end of the call with a mark after it.
void ArgumentValues::avoid_early_ends(std::string& pattern) const {
  const CallForm& form = dialect_.forms[0];
  if (form.arguments != ArgumentSyntax::parameters || form.tagged.parameter.elements) return;
  avoid(pattern, form.tagged.parameter.begin);
  std::string ends;
  for (const Marks& marks : {form.tagged.ends, form.closes}) {
    for (const std::string_view mark : marks) avoid(ends, mark);
  }
  std::string next;
  avoid(next, form.tagged.begin);
  for (const Marks& marks : {form.opens, form.separators, dialect_.noise, dialect_.messages.body_ends,
                             dialect_.messages.header_begins}) {
    for (const std::string_view mark : marks) avoid(next, mark);
  }
  if (!ends.empty() && !next.empty())
    pattern += fmt::format("|({0})[ \\t\\r\\n]*(({0})[ \\t\\r\\n]*)?({1})", ends, next);
}

// Writes any text without the marks that end it. If the value may have other types, texts that read as one
// of them are left out: the schema decides about those.
std::string ArgumentValues::free_value(const Unquoted& value) const {
  std::string avoided;
  avoid(avoided, value.end);
  avoid(avoided, "<![CDATA[");
  avoid_early_ends(avoided);
  if (value.types.only_text() || !value.types.known) return text_without(avoided);
  std::string others = "null|None";
  if (value.types.has(ValueTypes::kBool)) others += "|[Tt]rue|[Ff]alse";
  if (value.types.has(ValueTypes::kNumber)) others += "|-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?";
  if (value.types.has(ValueTypes::kArray)) others += "|\\[.*";
  if (value.types.has(ValueTypes::kObject)) others += "|\\{.*";
  return fmt::format("/(?!\\s*({})\\s*$)((?!{}).)*/s", others, avoided);
}

std::string ArgumentValues::text_values(const SchemaInDocument& schema, const Unquoted& value) const {
  Texts texts;
  add_texts(schema, value, texts, 0);
  return texts.written;
}

void ArgumentValues::add_texts(const SchemaInDocument& schema, const Unquoted& value, Texts& texts,
                               int depth) const {
  constexpr int kMaxBranchDepth = 16;
  constexpr size_t kMaxSchemas = 1024;
  const SchemaInDocument target = schema.target();
  if (depth > kMaxBranchDepth || ++texts.num_schemas > kMaxSchemas) refuse(value);
  for (const char* key : {"anyOf", "oneOf"}) {
    const JsonValue* const branches = target.schema == nullptr ? nullptr : target.schema->find(key);
    if (branches == nullptr || branches->as_array() == nullptr || !has_only_branches(*target.schema, key))
      continue;
    for (const JsonValue& branch : *branches->as_array())
      add_texts({&branch, schema.document}, value, texts, depth + 1);
    return;
  }
  // The target of a reference to an $id is unknown here: its values are JSON.
  const bool is_unknown = target.schema != nullptr && target.schema->find("$ref") != nullptr &&
                          has_only_branches(*target.schema, "$ref");
  if (is_unknown || !types_of(target).has(ValueTypes::kString)) return;
  const std::string text = text_value(target, value);
  if (!text.empty()) texts.written += (texts.written.empty() ? "" : " | ") + text;
}

}  // namespace quire

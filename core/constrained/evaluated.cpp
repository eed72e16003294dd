#include "core/constrained/evaluated.h"

#include <algorithm>
#include <iterator>

#include <gsl/gsl>

#include "core/base/error.h"
#include "core/constrained/pattern.h"

namespace quire {
namespace {

constexpr size_t kMaxCases = 64;
constexpr int kMaxDepth = 30;  // nesting of schemas that apply to one value

using Cases = std::vector<Evaluated>;

class Collector {
 public:
  Collector(std::string_view keyword, SchemaDocument& document, LanguageStore& languages)
      : keyword_(keyword), document_(document), languages_(languages) {}

  // Collects from all keywords except the unevaluated keyword itself.
  Cases of_root(SchemaId schema) { return collect(schema, kMaxDepth); }

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    throw Error(ErrorCode::unsupported, "the schema keyword \"{}\" is not supported {}", keyword_, why);
  }

  Cases collect(SchemaId schema, int depth) {
    const SchemaNode node = document_.node(schema);
    const JsonValue& value = *node.value;
    if (value.as_object() == nullptr) return {Evaluated{}};
    if (depth == 0) refuse("where schemas for one value are nested too deep");
    if (value.find("dependentSchemas") != nullptr) refuse("next to \"dependentSchemas\"");
    Cases cases = {own(node, depth == kMaxDepth)};
    for (const std::string_view reference : {"$ref", "$dynamicRef", "$recursiveRef"}) {
      const JsonValue* const target = value.find(reference);
      if (target == nullptr || target->as_string() == nullptr) continue;
      const SchemaId to = reference == "$ref"
                              ? document_.resolve(schema, *target->as_string())
                              : document_.resolve_dynamic(schema, *target->as_string(), reference);
      join(cases, collect(to, depth - 1));
    }
    for (const JsonValue& part : list(value, "allOf")) {
      join(cases, collect(document_.child(schema, part), depth - 1));
    }
    add_any(cases, schema, list(value, "anyOf"), depth);
    add_one(cases, schema, list(value, "oneOf"), depth);
    add_condition(cases, schema, value, depth);
    return cases;
  }

  static gsl::span<const JsonValue> list(const JsonValue& value, std::string_view keyword) {
    const JsonValue* const found = value.find(keyword);
    if (found == nullptr || found->as_array() == nullptr) return {};
    return *found->as_array();
  }

  // Collects from the keywords of the schema itself, without subschemas.
  Evaluated own(const SchemaNode& node, bool is_root) {
    const JsonValue& value = *node.value;
    Evaluated found;
    if (const JsonValue* const members = value.find("properties"); members && members->as_object()) {
      for (const JsonMember& member : *members->as_object())
        found.keys.push_back(languages_.text(member.key));
    }
    if (const JsonValue* const members = value.find("patternProperties"); members && members->as_object()) {
      PatternOptions options;
      options.dialect = PatternDialect::ecma262;
      for (const JsonMember& member : *members->as_object()) {
        found.keys.push_back(parse_pattern(member.key, options, languages_));
      }
    }
    const auto has = [&](const char* keyword) { return value.find(keyword) != nullptr; };
    found.all_keys = has("additionalProperties") || (!is_root && has("unevaluatedProperties"));
    const JsonValue* const items = value.find("items");
    const bool is_2020 = node.draft == SchemaDraft::draft2020;
    found.num_items = static_cast<uint32_t>(list(value, is_2020 ? "prefixItems" : "items").size());
    const bool of_rest =
        items != nullptr && (items->as_array() == nullptr || (!is_2020 && has("additionalItems")));
    found.all_items = of_rest || (!is_root && has("unevaluatedItems"));
    if (is_2020 && has("contains") && keyword_ == "unevaluatedItems") refuse("next to \"contains\"");
    return found;
  }

  // Combines each case of one list with each case of the other.
  void join(Cases& cases, const Cases& more) const {
    if (cases.size() * more.size() > kMaxCases) refuse("next to so many branches");
    Cases joined;
    for (const Evaluated& left : cases) {
      for (const Evaluated& right : more) {
        Evaluated both = left;
        const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
        append(both.conditions, right.conditions);
        append(both.keys, right.keys);
        both.num_items = std::max(left.num_items, right.num_items);
        both.all_keys |= right.all_keys;
        both.all_items |= right.all_items;
        joined.push_back(std::move(both));
      }
    }
    cases = std::move(joined);
  }

  Cases of_branch(SchemaId schema, int depth) {
    Cases cases = collect(schema, depth - 1);
    for (Evaluated& one : cases) one.conditions.push_back(2 * schema);
    return cases;
  }

  bool evaluates_nothing(const Cases& cases) const {
    const bool members = keyword_ == "unevaluatedProperties";
    return std::all_of(cases.begin(), cases.end(), [&](const Evaluated& one) {
      return members ? one.keys.empty() && !one.all_keys : one.num_items == 0 && !one.all_items;
    });
  }

  void add_any(Cases& cases, SchemaId schema, gsl::span<const JsonValue> parts, int depth) {
    for (const JsonValue& part : parts) {
      const SchemaId branch = document_.child(schema, part);
      Cases either = of_branch(branch, depth);
      if (evaluates_nothing(either)) continue;
      either.push_back({{2 * branch + 1}, {}});
      join(cases, either);
    }
  }

  void add_one(Cases& cases, SchemaId schema, gsl::span<const JsonValue> parts, int depth) {
    Cases either;
    for (const JsonValue& part : parts) {
      Cases branch = of_branch(document_.child(schema, part), depth);
      for (Evaluated& one : branch) {
        for (const JsonValue& other : parts) {
          if (&other != &part) one.conditions.push_back(2 * document_.child(schema, other) + 1);
        }
      }
      std::move(branch.begin(), branch.end(), std::back_inserter(either));
    }
    if (!evaluates_nothing(either)) join(cases, either);
  }

  void add_condition(Cases& cases, SchemaId schema, const JsonValue& value, int depth) {
    const JsonValue* const test = value.find("if");
    if (test == nullptr) return;
    const auto of = [&](const char* keyword) -> Cases {
      const JsonValue* const part = value.find(keyword);
      return part == nullptr ? Cases{Evaluated{}} : collect(document_.child(schema, *part), depth - 1);
    };
    const SchemaId condition = document_.child(schema, *test);
    Cases either = of_branch(condition, depth);
    join(either, of("then"));
    Cases otherwise = of("else");
    for (Evaluated& one : otherwise) one.conditions.push_back(2 * condition + 1);
    std::move(otherwise.begin(), otherwise.end(), std::back_inserter(either));
    if (!evaluates_nothing(either)) join(cases, either);
  }

  std::string_view keyword_;
  SchemaDocument& document_;
  LanguageStore& languages_;
};

}  // namespace

std::vector<Evaluated> evaluated_by(SchemaId schema, std::string_view keyword, SchemaDocument& document,
                                    LanguageStore& languages) {
  return Collector(keyword, document, languages).of_root(schema);
}

}  // namespace quire

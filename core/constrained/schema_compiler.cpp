// Long file: one function for each keyword of JSON Schema, in plain and negated form.

#include "core/constrained/schema_compiler.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/constrained/evaluated.h"
#include "core/constrained/pattern.h"
#include "core/constrained/shape_algebra.h"

namespace quire {
namespace {

constexpr size_t kMaxNesting = 64;  // schemas that apply to one value
constexpr std::string_view kDigitsAlone = "-?(0|[1-9][0-9]*)";
constexpr uint32_t kMaxCount = 1'000'000'000;

Literal negated(Literal literal) {
  return literal ^ 1U;
}

[[noreturn]] void malformed(std::string_view keyword, std::string_view expected) {
  throw Error(ErrorCode::format, "the schema keyword \"{}\" must be {}", printable(keyword), expected);
}

Decimal decimal_of(const JsonValue& value, std::string_view keyword) {
  if (const int64_t* const whole = value.as_int()) return parse_decimal(fmt::format("{}", *whole));
  if (const double* const number = value.as_double()) return to_decimal(*number);
  malformed(keyword, "a number");
}

uint32_t count_of(const JsonValue& value, std::string_view keyword) {
  double count = -1;
  if (const int64_t* const whole = value.as_int()) count = static_cast<double>(*whole);
  if (const double* const number = value.as_double()) count = *number;
  if (count < 0 || count != std::floor(count)) malformed(keyword, "a whole number of 0 or more");
  return static_cast<uint32_t>(std::min(count, static_cast<double>(kMaxCount)));
}

const std::string& text_of(const JsonValue& value, std::string_view keyword) {
  if (value.as_string() == nullptr) malformed(keyword, "a string");
  return *value.as_string();
}

const JsonValue::Array& list_of(const JsonValue& value, std::string_view keyword) {
  if (value.as_array() == nullptr) malformed(keyword, "a list");
  return *value.as_array();
}

const JsonValue::Object& map_of(const JsonValue& value, std::string_view keyword) {
  if (value.as_object() == nullptr) malformed(keyword, "an object");
  return *value.as_object();
}

// Takes an array, because a list of initializers would copy the members.
template <size_t num_members>
JsonValue object_of(JsonMember (&&members)[num_members]) {
  JsonValue::Object object;
  object.reserve(num_members);
  for (JsonMember& member : members) object.push_back(std::move(member));
  return JsonValue(std::move(object));
}

JsonValue const_schema(const JsonValue& value) {
  return object_of({{"const", value.copy()}});
}

// Returns a schema that accepts exactly the list or object `value`, expressed with other keywords.
JsonValue schema_of_value(const JsonValue& value) {
  JsonValue::Array parts;
  if (const JsonValue::Array* const list = value.as_array()) {
    for (const JsonValue& item : *list) parts.push_back(const_schema(item));
    const auto count = static_cast<int64_t>(list->size());
    return object_of({{"type", JsonValue(std::string("array"))},
                      {"prefixItems", JsonValue(std::move(parts))},
                      {"minItems", JsonValue(count)},
                      {"maxItems", JsonValue(count)}});
  }
  JsonValue::Object properties;
  for (const JsonMember& member : *value.as_object()) {
    properties.push_back({member.key, const_schema(member.value)});
    parts.push_back(JsonValue(member.key));
  }
  return object_of({{"type", JsonValue(std::string("object"))},
                    {"properties", JsonValue(std::move(properties))},
                    {"required", JsonValue(std::move(parts))},
                    {"additionalProperties", JsonValue(false)}});
}

}  // namespace

// The shape of one schema, computed from its keywords in plain or negated form.
class KeywordShapes {
 public:
  KeywordShapes(SchemaCompiler& compiler, SchemaId schema, bool negative)
      : compiler_(compiler),
        algebra_(compiler),
        languages_(compiler.languages()),
        schema_(schema),
        node_(compiler.document_.node(schema)),
        negative_(negative) {}

  Shape shape() {
    const JsonValue& value = *node_.value;
    if (const bool* const accepted = value.as_bool())
      return *accepted != negative_ ? algebra_.all() : Shape{};
    if (value.as_object() == nullptr)
      throw Error(ErrorCode::format, "a schema must be an object, true or false");
    result_ = negative_ ? Shape{} : algebra_.all();
    const JsonValue* const reference = value.find("$ref");
    if (reference != nullptr && reference->as_string() != nullptr && node_.draft <= SchemaDraft::draft7) {
      add(*literal(compiler_.document_.resolve(schema_, *reference->as_string())));
      return result_;
    }
    const bool members_first = comes_before_combinations("properties");
    if (members_first) add_members();
    add_combinations();
    if (!members_first) add_members();
    add_type();
    add_strings();
    add_numbers();
    add_arrays();
    add_objects();
    add_unevaluated("unevaluatedProperties", [this](const Evaluated& known, GoalId goal) {
      return without_more_members(known, goal);
    });
    add_unevaluated("unevaluatedItems",
                    [this](const Evaluated& known, GoalId goal) { return without_more_items(known, goal); });
    return result_;
  }

 private:
  const JsonValue* find(std::string_view keyword) const { return node_.value->find(keyword); }
  // Decides whether the members of a schema itself come before those of the schemas that it combines.
  bool comes_before_combinations(std::string_view keyword) const {
    static constexpr std::string_view kCombinations[] = {"$ref", "allOf", "anyOf", "oneOf", "if"};
    const auto& keywords = *node_.value->as_object();
    const auto first = std::find_if(keywords.begin(), keywords.end(), [&](const JsonMember& member) {
      return member.key == keyword || std::find(std::begin(kCombinations), std::end(kCombinations),
                                                member.key) != std::end(kCombinations);
    });
    return first != keywords.end() && first->key == keyword;
  }
  bool is_modern() const { return node_.draft >= SchemaDraft::draft2019; }

  // Adds one more condition: all must hold or, if negated, at least one must fail.
  void add(const Shape& condition) {
    result_ = negative_ ? algebra_.either(std::move(result_), condition) : algebra_.both(result_, condition);
  }
  Literal literal_of(const JsonValue& schema) { return 2 * compiler_.document_.child(schema_, schema); }
  std::shared_ptr<const Shape> literal(SchemaId schema) {
    return compiler_.literal_shape(2 * schema + (negative_ ? 1 : 0));
  }
  GoalId goal_of(const JsonValue& schema) { return compiler_.goal({literal_of(schema)}); }
  GoalId negated_goal_of(const JsonValue& schema) { return compiler_.goal({negated(literal_of(schema))}); }
  Shape shape_of(std::vector<Literal> literals) {
    return compiler_.shape(compiler_.goal(std::move(literals)));
  }

  std::vector<Evaluated> evaluated(std::string_view keyword) {
    return evaluated_by(schema_, keyword, compiler_.document_, languages_);
  }

  // Adds unevaluatedProperties or unevaluatedItems, whose condition depends on the other keywords that a
  // value satisfies.
  template <typename Closed>
  void add_unevaluated(std::string_view keyword, Closed&& closed) {
    const JsonValue* const value = find(keyword);
    if (value == nullptr || !is_modern() || (value->as_bool() != nullptr && *value->as_bool())) return;
    Shape any;
    for (const Evaluated& one : evaluated(keyword)) {
      any = algebra_.either(std::move(any),
                            algebra_.both(shape_of(one.conditions), closed(one, goal_for(*value))));
    }
    add(any);
  }

  // Returns the goal of a subschema: every affected value must satisfy it or, if negated, at least one must
  // not.
  GoalId goal_for(const JsonValue& schema) { return negative_ ? negated_goal_of(schema) : goal_of(schema); }

  Shape without_more_members(const Evaluated& known, GoalId goal) {
    Shape shape = negative_ ? Shape{} : algebra_.all();
    if (known.all_keys) return shape;
    ObjectTerm term;
    const KeyRule rule{languages_.complement(languages_.any_of(known.keys)), kNoName, goal};
    (negative_ ? term.obligations : term.rules).push_back(rule);
    shape.objects = {std::move(term)};
    return shape;
  }

  Shape without_more_items(const Evaluated& known, GoalId goal) {
    Shape shape = negative_ ? Shape{} : algebra_.all();
    if (known.all_items) return shape;
    ArrayTerm term;
    if (negative_) {
      term.counts.push_back({known.num_items, goal, kAnyValue, 1, kNoMaximum});
    } else {
      term.prefix.resize(known.num_items, kAnyValue);
      term.rest = goal;
    }
    shape.arrays = {std::move(term)};
    return shape;
  }

  void add_combinations() {
    if (const JsonValue* const reference = find("$ref")) {
      add(*literal(compiler_.document_.resolve(schema_, text_of(*reference, "$ref"))));
    }
    for (const std::string_view keyword : {"$dynamicRef", "$recursiveRef"}) {
      const JsonValue* const reference = find(keyword);
      const bool known =
          node_.draft == (keyword == "$dynamicRef" ? SchemaDraft::draft2020 : SchemaDraft::draft2019);
      if (reference == nullptr || !known) continue;
      add(*literal(compiler_.document_.resolve_dynamic(schema_, text_of(*reference, keyword), keyword)));
    }
    if (const JsonValue* const list = find("allOf")) {
      for (const JsonValue& part : list_of(*list, "allOf")) add(*literal(literal_of(part) / 2));
    }
    if (const JsonValue* const list = find("anyOf")) add_any(list_of(*list, "anyOf"));
    if (const JsonValue* const list = find("oneOf")) add_one(list_of(*list, "oneOf"));
    if (const JsonValue* const part = find("not")) {
      add(*compiler_.literal_shape(literal_of(*part) + (negative_ ? 0 : 1)));
    }
    if (find("if") != nullptr && node_.draft >= SchemaDraft::draft7) add_condition();
    if (const JsonValue* const value = find("const")) add(const_shape(*value));
    if (const JsonValue* const list = find("enum")) add_enum(list_of(*list, "enum"));
  }

  void add_any(const JsonValue::Array& parts) {
    Shape any = negative_ ? algebra_.all() : Shape{};
    for (const JsonValue& part : parts) {
      const std::shared_ptr<const Shape> one = literal(literal_of(part) / 2);
      any = negative_ ? algebra_.both(any, *one) : algebra_.either(std::move(any), *one);
    }
    add(any);
  }

  void add_one(const JsonValue::Array& parts) {
    std::vector<Literal> literals;
    for (const JsonValue& part : parts) literals.push_back(literal_of(part));
    if (negative_) {
      std::vector<Literal> none;
      none.reserve(literals.size());
      for (const Literal literal : literals) none.push_back(negated(literal));
      Shape shape = shape_of(std::move(none));
      for (size_t i = 0; i < literals.size(); ++i) {
        for (size_t j = i + 1; j < literals.size(); ++j) {
          shape = algebra_.either(std::move(shape), shape_of({literals[i], literals[j]}));
        }
      }
      return add(shape);
    }
    Shape shape;
    for (size_t i = 0; i < literals.size(); ++i) {
      // Exclude only the other branches that can overlap with this one.
      std::vector<Literal> alone = {literals[i]};
      for (size_t j = 0; j < literals.size(); ++j) {
        if (j != i && !compiler_.is_known_empty(compiler_.goal({literals[i], literals[j]}), 2)) {
          alone.push_back(negated(literals[j]));
        }
      }
      shape = algebra_.either(std::move(shape), shape_of(std::move(alone)));
    }
    add(shape);
  }

  void add_condition() {
    const Literal test = literal_of(*find("if"));
    const auto branch = [&](Literal when, const JsonValue* schema) {
      std::vector<Literal> literals = {when};
      if (schema != nullptr) literals.push_back(literal_of(*schema) + (negative_ ? 1 : 0));
      if (schema == nullptr && negative_) return Shape{};
      return shape_of(std::move(literals));
    };
    add(algebra_.either(branch(test, find("then")), branch(negated(test), find("else"))));
  }

  void add_enum(const JsonValue::Array& values) {
    Shape any = negative_ ? algebra_.all() : Shape{};
    std::vector<LanguageId> texts;
    for (const JsonValue& value : values) {
      if (value.as_string() != nullptr) {
        texts.push_back(languages_.text(*value.as_string()));
        continue;
      }
      const Shape one = const_shape(value);
      any = negative_ ? algebra_.both(any, one) : algebra_.either(std::move(any), one);
    }
    const LanguageId strings = languages_.any_of(std::move(texts));
    any.strings = negative_ ? languages_.complement(strings) : strings;
    add(any);
  }

  Shape const_shape(const JsonValue& value) {
    Shape shape = negative_ ? algebra_.all() : Shape{};
    if (value.is_null()) shape.null = !negative_;
    if (const bool* const flag = value.as_bool()) (*flag ? shape.truth : shape.lie) = !negative_;
    if (const std::string* const text = value.as_string()) {
      const LanguageId language = languages_.text(*text);
      shape.strings = negative_ ? languages_.complement(language) : language;
    }
    if (value.as_int() != nullptr || value.as_double() != nullptr) {
      const Decimal number = decimal_of(value, "const");
      const LanguageId all = compiler_.all_numbers();
      const LanguageId below =
          languages_.number(NumberTest(negative_ ? Relation::less : Relation::at_most, number));
      const LanguageId above =
          languages_.number(NumberTest(negative_ ? Relation::more : Relation::at_least, number));
      shape.numbers =
          negative_ ? languages_.all_of({all, languages_.any_of({below, above})})
                    : languages_.any_of({languages_.all_of({all, below, above}), with_exponent(number)});
      if (is_plain()) shape.numbers = languages_.text(number.text());
    }
    if (value.as_array() != nullptr || value.as_object() != nullptr) {
      return *literal(compiler_.document_.made(schema_of_value(value)));
    }
    return shape;
  }

  // Returns the number as printers write it with an exponent: 9.5e+15.
  LanguageId with_exponent(const Decimal& number) {
    std::string digits = number.whole + number.fraction;
    const size_t first = digits.find_first_not_of('0');
    if (first == std::string::npos) return LanguageStore::kNothing;
    const auto power = static_cast<int64_t>(number.whole.size()) - 1 - static_cast<int64_t>(first);
    digits.erase(0, first);
    digits.erase(digits.find_last_not_of('0') + 1);
    std::string pattern = (number.negative ? "-" : "") + digits.substr(0, 1);
    if (digits.size() > 1) pattern += "\\." + digits.substr(1);
    pattern += fmt::format("[eE]{}0?{}", power < 0 ? "-" : "\\+?", std::abs(power));
    return power == 0 ? LanguageStore::kNothing : parse_pattern(pattern, {}, languages_);
  }

  void add_type() {
    const JsonValue* const value = find("type");
    if (value == nullptr) return;
    Shape any;
    if (value->as_string() != nullptr) {
      any = type_shape(*value->as_string());
    } else {
      for (const JsonValue& name : list_of(*value, "type")) {
        any = algebra_.either(std::move(any),
                              name.as_string() != nullptr ? type_shape(*name.as_string()) : Shape{});
      }
    }
    add(negative_ ? other_types(any) : any);
  }

  Shape type_shape(std::string_view name) {
    const Shape all = algebra_.all();
    Shape one;
    if (name == "null") {
      one.null = true;
    } else if (name == "boolean") {
      one.truth = one.lie = true;
    } else if (name == "string") {
      one.strings = all.strings;
    } else if (name == "number") {
      one.numbers = all.numbers;
    } else if (name == "integer") {
      one.numbers = integers();
    } else if (name == "array") {
      one.arrays = all.arrays;
    } else if (name == "object") {
      one.objects = all.objects;
    } else if (name == "any") {
      one = all;
    } else {
      throw Error(ErrorCode::format, "the schema keyword \"type\": \"{}\" is not a type", printable(name));
    }
    return one;
  }

  // What a negated schema leaves does not depend on how numbers are written.
  bool is_plain() const { return compiler_.form_.plain_integers && !negative_; }

  // In draft 4, a number with a fraction of zeros is not an integer.
  LanguageId integers() {
    if (node_.draft == SchemaDraft::draft4 || is_plain()) return parse_pattern(kDigitsAlone, {}, languages_);
    return integer_language(languages_);
  }
  LanguageId other_numbers() {
    if (node_.draft != SchemaDraft::draft4) return fraction_language(languages_);
    return languages_.all_of({compiler_.all_numbers(), languages_.complement(integers())});
  }

  Shape other_types(const Shape& types) {
    const Shape all = algebra_.all();
    Shape other;
    other.null = !types.null;
    other.truth = other.lie = !types.truth;
    if (types.strings == LanguageStore::kNothing) other.strings = all.strings;
    if (types.numbers == LanguageStore::kNothing) other.numbers = all.numbers;
    if (types.numbers == integers()) other.numbers = other_numbers();
    if (types.arrays.empty()) other.arrays = all.arrays;
    if (types.objects.empty()) other.objects = all.objects;
    return other;
  }

  void add_strings(LanguageId language) {
    Shape shape = negative_ ? Shape{} : algebra_.all();
    shape.strings = negative_ ? languages_.complement(language) : language;
    add(shape);
  }

  void add_strings() {
    const LanguageId any_char = languages_.chars(all_chars());
    if (const JsonValue* const value = find("minLength")) {
      add_strings(languages_.repeat(any_char, count_of(*value, "minLength"), kNoMaximum));
    }
    if (const JsonValue* const value = find("maxLength")) {
      add_strings(languages_.repeat(any_char, 0, count_of(*value, "maxLength")));
    }
    if (const JsonValue* const value = find("pattern")) add_strings(pattern(text_of(*value, "pattern")));
  }

  LanguageId pattern(std::string_view text) {
    PatternOptions options;
    options.dialect = PatternDialect::ecma262;
    return parse_pattern(text, options, languages_);
  }

  void add_number(Relation relation, Relation opposite, const Decimal& operand) {
    Shape shape = negative_ ? Shape{} : algebra_.all();
    const LanguageId test = languages_.number(NumberTest(negative_ ? opposite : relation, operand));
    shape.numbers = languages_.all_of({compiler_.all_numbers(), test});
    add(shape);
  }

  bool is_exclusive(std::string_view keyword) const {
    const JsonValue* const value = find(keyword);
    return value != nullptr && value->as_bool() != nullptr && *value->as_bool();
  }

  void add_numbers() {
    if (const JsonValue* const value = find("minimum")) {
      const bool more = is_exclusive("exclusiveMinimum");
      add_number(more ? Relation::more : Relation::at_least, more ? Relation::at_most : Relation::less,
                 decimal_of(*value, "minimum"));
    }
    if (const JsonValue* const value = find("maximum")) {
      const bool less = is_exclusive("exclusiveMaximum");
      add_number(less ? Relation::less : Relation::at_most, less ? Relation::at_least : Relation::more,
                 decimal_of(*value, "maximum"));
    }
    const JsonValue* value = find("exclusiveMinimum");
    if (value != nullptr && value->as_bool() == nullptr) {
      add_number(Relation::more, Relation::at_most, decimal_of(*value, "exclusiveMinimum"));
    }
    value = find("exclusiveMaximum");
    if (value != nullptr && value->as_bool() == nullptr) {
      add_number(Relation::less, Relation::at_least, decimal_of(*value, "exclusiveMaximum"));
    }
    if ((value = find("multipleOf")) != nullptr) {
      add_number(Relation::multiple, Relation::no_multiple, decimal_of(*value, "multipleOf"));
    }
  }

  void add_array(ArrayTerm term) {
    Shape shape = negative_ ? Shape{} : algebra_.all();
    shape.arrays = {std::move(term)};
    add(shape);
  }

  void add_arrays() {
    add_items();
    if (const JsonValue* const value = find("minItems")) {
      ArrayTerm term;
      const uint32_t count = count_of(*value, "minItems");
      if (negative_) {
        if (count > 0) term.max = count - 1;
        if (count > 0) add_array(std::move(term));
      } else {
        term.min = count;
        add_array(std::move(term));
      }
    }
    if (const JsonValue* const value = find("maxItems")) {
      ArrayTerm term;
      const uint32_t count = count_of(*value, "maxItems");
      (negative_ ? term.min : term.max) = count + (negative_ ? 1 : 0);
      add_array(std::move(term));
    }
    if (is_exclusive("uniqueItems")) {
      if (negative_)
        throw Error(ErrorCode::unsupported,
                    "the schema keyword \"uniqueItems\" inside \"not\" is not supported");
      ArrayTerm term;
      term.unique = true;
      add_array(std::move(term));
    }
    if (find("contains") != nullptr && node_.draft >= SchemaDraft::draft6) add_contains();
  }

  void add_items() {
    const JsonValue* prefix = node_.draft == SchemaDraft::draft2020 ? find("prefixItems") : nullptr;
    const JsonValue* rest = find("items");
    if (rest != nullptr && rest->as_array() != nullptr) {
      prefix = rest;
      rest = find("additionalItems");
    }
    if (prefix == nullptr && rest == nullptr) return;
    static constexpr size_t kNoItems = 0;
    const size_t num_first = prefix == nullptr ? kNoItems : list_of(*prefix, "prefixItems").size();
    if (!negative_) {
      ArrayTerm term;
      for (size_t i = 0; i < num_first; ++i) term.prefix.push_back(goal_of((*prefix->as_array())[i]));
      if (rest != nullptr) term.rest = goal_of(*rest);
      return add_array(std::move(term));
    }
    for (size_t i = 0; i < num_first; ++i) {
      ArrayTerm term;
      term.prefix.resize(i, kAnyValue);
      term.prefix.push_back(negated_goal_of((*prefix->as_array())[i]));
      term.min = static_cast<uint32_t>(i + 1);
      add_array(std::move(term));
    }
    if (rest == nullptr) return;
    ArrayTerm term;
    term.counts.push_back(
        {static_cast<uint32_t>(num_first), negated_goal_of(*rest), kAnyValue, 1, kNoMaximum});
    add_array(std::move(term));
  }

  void add_contains() {
    const JsonValue& part = *find("contains");
    uint32_t min = 1;
    uint32_t max = kNoMaximum;
    if (is_modern()) {
      if (const JsonValue* const value = find("minContains")) min = count_of(*value, "minContains");
      if (const JsonValue* const value = find("maxContains")) max = count_of(*value, "maxContains");
    }
    const ItemCount count{0, goal_of(part), negated_goal_of(part), 0, kNoMaximum};
    const auto counted = [&](uint32_t low, uint32_t high) {
      ArrayTerm term;
      term.counts.push_back(count);
      term.counts[0].min = low;
      term.counts[0].max = high;
      add_array(std::move(term));
    };
    if (!negative_) {
      if (min > max) return add(without_arrays());
      return counted(min, max);
    }
    if (min > 0) counted(0, min - 1);
    if (max != kNoMaximum) counted(max + 1, kNoMaximum);
  }

  Shape without_arrays() {
    Shape shape = algebra_.all();
    shape.arrays.clear();
    return shape;
  }

  void add_object(ObjectTerm term) {
    Shape shape = negative_ ? Shape{} : algebra_.all();
    shape.objects = {std::move(term)};
    add(shape);
  }

  KeyRule name_rule(const std::string& name, GoalId goal) { return {0, compiler_.name_idx(name), goal}; }

  void add_objects() {
    if (const JsonValue* const value = find("required")) add_required(*value);
    if (const JsonValue* const value = find("minProperties")) {
      const uint32_t count = count_of(*value, "minProperties");
      ObjectTerm term;
      if (!negative_) term.min = count;
      if (negative_ && count > 0) term.max = count - 1;
      if (!negative_ || count > 0) add_object(std::move(term));
    }
    if (const JsonValue* const value = find("maxProperties")) {
      const uint32_t count = count_of(*value, "maxProperties");
      ObjectTerm term;
      (negative_ ? term.min : term.max) = count + (negative_ ? 1 : 0);
      add_object(std::move(term));
    }
    if (find("propertyNames") != nullptr && node_.draft >= SchemaDraft::draft6) add_names();
    if (is_modern()) {
      if (const JsonValue* const value = find("dependentRequired"))
        add_dependencies(*value, "dependentRequired");
      if (const JsonValue* const value = find("dependentSchemas"))
        add_dependencies(*value, "dependentSchemas");
    } else if (const JsonValue* const value = find("dependencies")) {
      add_dependencies(*value, "dependencies");
    }
  }

  void add_required(const JsonValue& value) {
    if (value.as_bool() != nullptr && node_.draft == SchemaDraft::draft4)
      return;  // draft 3: refers to the parent
    ObjectTerm all;
    for (const JsonValue& name : list_of(value, "required")) {
      if (negative_) {
        ObjectTerm term;
        term.rules.push_back(name_rule(text_of(name, "required"), kNoValue));
        add_object(std::move(term));
      } else {
        all.obligations.push_back(name_rule(text_of(name, "required"), kAnyValue));
      }
    }
    std::sort(all.obligations.begin(), all.obligations.end());
    if (!negative_) add_object(std::move(all));
  }

  // Adds properties, patternProperties and additionalProperties, which applies to all other keys.
  void add_members() {
    std::vector<KeyRule> rules;
    std::vector<LanguageId> keys;
    const auto goal = [this](const JsonValue& schema) { return goal_for(schema); };
    if (const JsonValue* const value = find("properties")) {
      for (const JsonMember& member : map_of(*value, "properties")) {
        rules.push_back(name_rule(member.key, goal(member.value)));
        keys.push_back(compiler_.name_language(rules.back().name));
      }
    }
    if (const JsonValue* const value = find("patternProperties")) {
      for (const JsonMember& member : map_of(*value, "patternProperties")) {
        keys.push_back(pattern(member.key));
        rules.push_back({keys.back(), kNoName, goal(member.value)});
      }
    }
    if (const JsonValue* const value = find("additionalProperties")) {
      rules.push_back({languages_.complement(languages_.any_of(std::move(keys))), kNoName, goal(*value)});
    }
    if (!negative_) {
      std::erase_if(rules,
                    [](const KeyRule& rule) { return rule.name == kNoName && rule.goal == kAnyValue; });
      ObjectTerm term;
      term.declared = declared_members();
      algebra_.join_rules(term.rules, rules);
      if (term != ObjectTerm{}) add_object(std::move(term));
      return;
    }
    for (const KeyRule& rule : rules) {
      if (rule.goal == kNoValue) continue;
      ObjectTerm term;
      term.obligations.push_back(rule);
      add_object(std::move(term));
    }
  }

  // Returns what the keywords of the schema itself say about the order of members and about other members.
  Declared declared_members() {
    Declared declared;
    const JsonValue* const members = find("properties");
    const JsonValue* const patterns = find("patternProperties");
    if (compiler_.form_.in_order && members != nullptr) {
      for (const JsonMember& member : *members->as_object())
        declared.order.push_back(compiler_.name_idx(member.key));
    }
    if (!compiler_.form_.closed) return declared;
    declared.names = members != nullptr || patterns != nullptr;
    if (patterns != nullptr) {
      for (const JsonMember& member : *patterns->as_object())
        declared.patterns.push_back(pattern(member.key));
    }
    const auto allows = [this](std::string_view keyword) {
      const JsonValue* const value = find(keyword);
      return value != nullptr && (value->as_bool() == nullptr || *value->as_bool());
    };
    declared.others = allows("additionalProperties") || (is_modern() && allows("unevaluatedProperties")) ||
                      (node_.draft >= SchemaDraft::draft6 && allows("propertyNames"));
    return declared;
  }

  void add_names() {
    const LanguageId names = compiler_.shape(goal_of(*find("propertyNames"))).strings;
    const KeyRule other{languages_.complement(names), kNoName, negative_ ? kAnyValue : kNoValue};
    ObjectTerm term;
    (negative_ ? term.obligations : term.rules).push_back(other);
    add_object(std::move(term));
  }

  void add_dependencies(const JsonValue& value, std::string_view keyword) {
    for (const JsonMember& member : map_of(value, keyword)) {
      if (member.value.as_array() != nullptr) {
        for (const JsonValue& needed : *member.value.as_array())
          add_implication(member.key, text_of(needed, keyword));
      } else if (member.value.as_string() != nullptr) {
        add_implication(member.key, *member.value.as_string());
      } else {
        add_dependent_schema(member.key, member.value);
      }
    }
  }

  void add_implication(const std::string& name, const std::string& needed) {
    ObjectTerm term;
    if (negative_) {
      term.obligations.push_back(name_rule(name, kAnyValue));
      term.rules.push_back(name_rule(needed, kNoValue));
    } else {
      term.implications.push_back({compiler_.name_idx(name), compiler_.name_idx(needed)});
    }
    if (name == needed) return;
    add_object(std::move(term));
  }

  void add_dependent_schema(const std::string& name, const JsonValue& schema) {
    Shape with;
    with.objects.emplace_back();
    with.objects[0].obligations.push_back(name_rule(name, kAnyValue));
    const std::shared_ptr<const Shape> meets =
        compiler_.literal_shape(literal_of(schema) + (negative_ ? 1 : 0));
    Shape shape = algebra_.both(with, *meets);
    if (!negative_) {
      Shape without = algebra_.all();
      without.objects[0].rules.push_back(name_rule(name, kNoValue));
      shape = algebra_.either(std::move(shape), without);
    }
    add(shape);
  }

  SchemaCompiler& compiler_;
  ShapeAlgebra algebra_;
  LanguageStore& languages_;
  SchemaId schema_;
  SchemaNode node_;
  bool negative_;
  Shape result_;
};

SchemaCompiler::SchemaCompiler(const JsonValue& schema, LanguageStore& languages, const JsonForm& form)
    : document_(schema),
      languages_(languages),
      form_(form),
      all_numbers_(form.plain_integers ? printed_number_language(languages) : number_language(languages)) {
  by_literals_.emplace(std::vector<Literal>{}, kAnyValue);
  goals_.emplace_back();
  goals_.push_back({UINT32_MAX});
  by_literals_.emplace(goals_.back(), kNoValue);
  shapes_.emplace(kNoValue, Shape{});
}

GoalId SchemaCompiler::goal(std::vector<Literal> literals) {
  std::sort(literals.begin(), literals.end());
  literals.erase(std::unique(literals.begin(), literals.end()), literals.end());
  std::vector<Literal> kept;
  for (const Literal literal : literals) {
    if (literal == UINT32_MAX) return kNoValue;
    const JsonValue& value = *document_.node(literal / 2).value;
    const bool empty = value.as_object() != nullptr && value.as_object()->empty();
    const bool constant = value.as_bool() != nullptr || empty;
    if (!constant) {
      kept.push_back(literal);
      continue;
    }
    const bool accepted = (empty || *value.as_bool()) != ((literal & 1U) != 0);
    if (!accepted) return kNoValue;
  }
  for (size_t i = 0; i + 1 < kept.size(); ++i) {
    if (kept[i] == negated(kept[i + 1])) return kNoValue;
  }
  const auto [it, is_new] = by_literals_.emplace(std::move(kept), static_cast<GoalId>(goals_.size()));
  if (!is_new) return it->second;
  if (goals_.size() >= kMaxGoals)
    throw Error(ErrorCode::capacity, "a schema needs more than max_goals = {} combinations of subschemas",
                kMaxGoals);
  goals_.push_back(it->first);
  return it->second;
}

GoalId SchemaCompiler::both(GoalId a, GoalId b) {
  if (a == b || b == kAnyValue) return a;
  if (a == kAnyValue) return b;
  std::vector<Literal> literals = goals_[a];
  literals.insert(literals.end(), goals_[b].begin(), goals_[b].end());
  return goal(std::move(literals));
}

uint32_t SchemaCompiler::name_idx(const std::string& name) {
  const auto [it, is_new] = names_.idx.emplace(name, static_cast<uint32_t>(names_.all.size()));
  if (is_new) names_.all.push_back({name, languages_.text(name)});
  return it->second;
}

const Shape& SchemaCompiler::shape(GoalId goal) {
  const auto known = shapes_.find(goal);
  if (known != shapes_.end() && !unfinished_.contains(goal)) return known->second;
  const size_t num_cycles = num_cycles_;
  Shape made = make_shape(goal);
  if (num_cycles_ == num_cycles) {
    unfinished_.erase(goal);
  } else {
    unfinished_.insert(goal);
  }
  return shapes_.insert_or_assign(goal, std::move(made)).first->second;
}

Shape SchemaCompiler::make_shape(GoalId goal) {
  ShapeAlgebra algebra(*this);
  const std::vector<Literal> literals = goals_[goal];
  if (literals.empty()) return algebra.all();
  Shape all = *literal_shape(literals[0]);
  for (size_t i = 1; i < literals.size(); ++i) all = algebra.both(all, *literal_shape(literals[i]));
  return all;
}

std::shared_ptr<const Shape> SchemaCompiler::literal_shape(Literal literal) {
  const auto known = literal_shapes_.find(literal);
  if (known != literal_shapes_.end()) return known->second;
  // A schema that refers to itself for the same value accepts nothing, because no finite evaluation succeeds.
  if (!in_progress_.insert(literal).second) {
    ++num_cycles_;
    return std::make_shared<const Shape>();
  }
  const size_t num_cycles = num_cycles_;
  if (in_progress_.size() > kMaxNesting) {
    throw Error(ErrorCode::capacity, "schemas for one value are nested deeper than max_nesting = {}",
                kMaxNesting);
  }
  auto shape = std::make_shared<const Shape>(KeywordShapes(*this, literal / 2, (literal & 1U) != 0).shape());
  in_progress_.erase(literal);
  if (num_cycles_ == num_cycles) literal_shapes_.emplace(literal, shape);
  return shape;
}

bool SchemaCompiler::is_known_empty(GoalId goal, int levels) {
  if (goal == kNoValue) return true;
  if (goal == kAnyValue || levels <= 0) return false;
  const size_t num_cycles = num_cycles_;
  const Shape& found = shape(goal);  // the reference stays valid unless a schema in progress was met
  if (num_cycles_ != num_cycles) {   // the shape depends on a schema in progress: unknown yet
    num_cycles_ = num_cycles;
    return false;
  }
  if (found.null || found.truth || found.lie) return false;
  const auto has_text = [this](LanguageId language) { return !languages_.is_empty(language); };
  if (has_text(found.strings) || has_text(found.numbers)) return false;
  return std::all_of(found.arrays.begin(), found.arrays.end(),
                     [&](const ArrayTerm& term) { return term_empty(term, levels); }) &&
         std::all_of(found.objects.begin(), found.objects.end(),
                     [&](const ObjectTerm& term) { return term_empty(term, levels); });
}

bool SchemaCompiler::term_empty(const ArrayTerm& term, int levels) {
  for (uint32_t i = 0; i < term.min && i <= term.prefix.size(); ++i) {
    if (is_known_empty(i < term.prefix.size() ? term.prefix[i] : term.rest, levels - 1)) return true;
  }
  return false;
}

bool SchemaCompiler::term_empty(const ObjectTerm& term, int levels) {
  ShapeAlgebra algebra(*this);
  for (const KeyRule& needed : term.obligations) {
    if (needed.name == kNoName) continue;
    if (is_known_empty(both(needed.goal, algebra.goal_of_name(term, needed.name)), levels - 1)) return true;
  }
  return false;
}

}  // namespace quire

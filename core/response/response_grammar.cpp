#include "core/response/response_grammar.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/ascii.h"
#include "core/base/error.h"
#include "core/response/argument_grammar.h"
#include "core/response/json_text.h"

namespace quire {
namespace {

constexpr std::string_view kSpace = "/\\n{0,2}/";
// The beginning of an object in text that may be a call.
constexpr std::string_view kObjectPattern =
    "\\{[ \\t\\r\\n]*\"(name|arguments|parameters|type|id|tool_name|tool_call_id)\"";

// Returns the schema of a tool's arguments as one object.
std::string object_schema(const ToolSet::Tool& tool) {
  const JsonValue& schema = tool.parameters;
  if (schema.as_object() == nullptr) return "%json {\"type\": \"object\"}";
  if (schema.find("type") != nullptr) return "%json " + json_text(schema);
  return "%json " + json_text(schema.copy_with("type", JsonValue(std::string("object"))));
}

class GrammarWriter {
 public:
  GrammarWriter(const ResponseRules& rules, const SpecialTokens& special)
      : rules_(rules), dialect_(*rules.dialect), special_(special), values_(dialect_) {}

  std::string write() {
    const std::string body = answer();
    return fmt::format("{}start: {}\n{}", values_.documents(), body, source_);
  }

 private:
  const CallForm& form() const { return dialect_.forms[0]; }
  const MessageSyntax& messages() const { return dialect_.messages; }
  bool has_messages() const { return !messages().header_begins.empty(); }

  std::string add_rule(const std::string& body) {
    std::string name = fmt::format("r{}", num_rules_++);
    source_ += fmt::format("{}: {}\n", name, body);
    return name;
  }

  TokenId find_special(std::string_view text) const {
    const auto found = special_.find(std::string(text));
    return found == special_.end() ? -1 : found->second;
  }
  // Writes a mark: its special tokens (the longest match first) as tokens, the rest as text.
  std::string mark(std::string_view words) {
    std::string parts;
    std::string text;
    const auto flush = [&] {
      if (!text.empty()) parts += lark_text(text) + " ";
      text.clear();
    };
    for (size_t pos = 0; pos < words.size();) {
      size_t size = words.size() - pos;
      while (size > 0 && find_special(words.substr(pos, size)) < 0) --size;
      if (size == 0) {
        text += words[pos++];
        continue;
      }
      flush();
      parts += fmt::format("<[{}]> ", find_special(words.substr(pos, size)));
      pos += size;
    }
    flush();
    return parts.empty() ? "\"\"" : parts.substr(0, parts.size() - 1);
  }

  template <typename List>
  void avoid_all(std::string& pattern, const List& marks) {
    for (const std::string_view words : marks) avoid(pattern, words);
  }
  void avoid_calls(std::string& pattern) {
    for (const CallForm& each : dialect_.forms) {
      avoid(pattern, each.tagged.begin);
      if (!each.bare) avoid_all(pattern, each.opens);
      if (!each.bare) continue;
      if (!pattern.empty()) pattern += "|";
      pattern += each.body == CallBody::object ? std::string(kObjectPattern) : python_call_pattern();
    }
  }
  std::string python_call_pattern() {
    std::string names;
    for (const ToolSet::Tool& tool : rules_.tools.tools()) {
      names += (names.empty() ? "" : "|") + pattern_of_text(tool.name);
    }
    if (names.empty()) names = "[A-Za-z_][A-Za-z0-9_.]*";
    return fmt::format("\\[[ \\t\\r\\n,;\\[\\]]*({})[ \\t\\r\\n]*\\(", names);
  }

  std::string free_text() {
    std::string avoided;
    avoid_calls(avoided);
    if (rules_.reasoning != ReasoningStart::off) {
      avoid_all(avoided, dialect_.reasoning.opens);
      avoid_all(avoided, dialect_.reasoning.closes);
    }
    avoid_all(avoided, messages().header_begins);
    avoid_all(avoided, messages().body_ends);
    return rules_.tags ? tagged_text(std::move(avoided)) : text_without(avoided);
  }

  std::string tagged_text(std::string avoided) {
    const TagFormat& format = *rules_.tags;
    for (const std::string& trigger : format.triggers) avoid(avoided, trigger);
    const std::string text = text_without(avoided);
    std::string each;
    for (const TagFormat::Tag& tag : format.tags) {
      std::string content = tag.content;
      if (content.empty()) content = text_without(pattern_of_text(tag.end));
      each += (each.empty() ? "" : " | ") +
              add_rule(fmt::format("{} {} {}", mark(tag.begin), content, mark(tag.end)));
    }
    const std::string one = add_rule(each);
    if (format.stop_after_first) return fmt::format("{} {}{}", text, one, format.at_least_one ? "" : "?");
    return fmt::format("{0} ({1} {0}){2}", text, one, format.at_least_one ? "+" : "*");
  }

  std::string reasoning() {
    if (rules_.reasoning == ReasoningStart::off || !has_reasoning(dialect_)) return "";
    const ReasoningSyntax& syntax = dialect_.reasoning;
    std::string avoided;
    avoid_all(avoided, syntax.closes);
    avoid_all(avoided, messages().header_begins);
    avoid_all(avoided, messages().body_ends);
    if (syntax.calls == CallsInReasoning::end_it) avoid_calls(avoided);
    const std::string text = text_without(avoided);
    if (has_messages()) {
      std::string rest = fmt::format("{} {}", text, mark(messages().write_next));
      if (rules_.reasoning == ReasoningStart::open) return rest;
      return fmt::format("({} {})?", mark(messages().write_reasoning), rest);
    }
    std::string rest = fmt::format("{} {} {}", text, mark(syntax.closes[0]), kSpace);
    if (rules_.reasoning == ReasoningStart::open) return rest;
    return fmt::format("({} {})?", mark(syntax.opens[0]), rest);
  }

  std::string answer() {
    const std::string thought = reasoning();
    const std::string text = rules_.format.empty() ? free_text() : rules_.format;
    const std::string written = has_messages() ? mark(messages().write_text) + " " + text : text;
    if (rules_.choice == ToolChoice::none) return thought + " " + written;
    const std::string all_calls = add_rule(calls());
    if (rules_.choice == ToolChoice::required) return thought + " " + all_calls;
    if (has_messages() || !rules_.format.empty())
      return fmt::format("{} ({} | {})", thought, written, all_calls);
    return fmt::format("{} {} {}?", thought, text, all_calls);
  }

  std::string calls() {
    std::string each;
    for (const ToolSet::Tool& tool : rules_.tools.tools()) {
      check_name(tool.name);
      each += (each.empty() ? "" : " | ") + add_rule(has_messages() ? message_call(tool) : call(tool));
    }
    const std::string one = add_rule(each);
    if (has_messages()) {
      const bool several = rules_.parallel && !messages().single_call;
      return several ? fmt::format("{0} ({1} {0})*", one, mark(messages().write_next)) : one;
    }
    if (form().one_per_section) {
      const std::string whole = add_rule(section(one));
      return rules_.parallel ? fmt::format("{0} ({1} {0})*", whole, kSpace) : whole;
    }
    const bool lines = form().body == CallBody::python;
    const std::string separator = form().list ? "\", \"" : lines ? "\"\\n\"" : "/\\n?/";
    return section(rules_.parallel ? fmt::format("{0} ({1} {0})*", one, separator) : one);
  }

  static void check_name(std::string_view name) {
    for (const char byte : name) {
      const bool fits = is_ascii_letter_or_digit(byte) || byte == '_' || byte == '-' || byte == '.';
      if (!fits)
        throw Error(ErrorCode::unsupported,
                    "tools: \"{}\" is not a supported name; use only letters, digits, _, - and .",
                    printable(name))
            .at("tools");
    }
  }

  std::string section(const std::string& inside) {
    const CallForm& syntax = form();
    const bool opens_list = !syntax.opens.empty() && syntax.opens[0] == "[";
    const bool is_first_byte = !syntax.opens.empty() && syntax.opens[0] == "{";
    if (opens_list) return fmt::format("\"[\" {} \"]\"", inside);
    const std::string open = syntax.opens.empty() || is_first_byte ? "\"\"" : mark(syntax.opens[0]);
    const std::string close = syntax.closes.empty() ? "\"\"" : mark(syntax.closes[0]);
    if (syntax.list) return fmt::format("{} \"[\" {} \"]\" {}", open, inside, close);
    const bool tight = (syntax.body == CallBody::tagged && syntax.tagged.begin.empty()) || is_first_byte ||
                       syntax.body == CallBody::python || (syntax.opens.empty() && syntax.closes.empty());
    if (tight) return fmt::format("{} {} {}", open, inside, close);
    return fmt::format("{} /\\n?/ {} /\\n?/ {}", open, inside, close);
  }

  std::string call(const ToolSet::Tool& tool) {
    if (form().body == CallBody::object) return object_call(tool);
    return form().body == CallBody::python ? python_call(tool) : tagged_call(tool);
  }

  std::string message_call(const ToolSet::Tool& tool) {
    std::string header(messages().write_call);
    header.replace(header.find(kKeyPlaceholder), 1, tool.name);
    const std::string body = form().tagged.begin.empty() ? object_schema(tool) : section(tagged_call(tool));
    return mark(header) + " " + body;
  }

  std::string object_call(const ToolSet::Tool& tool) {
    const ObjectSyntax& object = form().object;
    const std::string name = json_quoted(tool.name);
    if (object.name_is_key) {
      return fmt::format("{} {} \"}}\"", lark_text("{" + name + ": "), object_schema(tool));
    }
    std::string begin = "\"{\"";
    if (!object.id.empty()) {
      begin = fmt::format("{} /[A-Za-z0-9]{{1,9}}/ {}", lark_text("{" + json_quoted(object.id) + ": \""),
                          lark_text("\", "));
    }
    const std::string rest =
        json_quoted(object.name) + ": " + name + ", " + json_quoted(object.arguments) + ": ";
    return fmt::format("{} {} {} \"}}\"", begin, lark_text(rest), object_schema(tool));
  }

  std::string tagged_call(const ToolSet::Tool& tool) {
    const TaggedSyntax& tagged = form().tagged;
    std::string body = tagged.begin.empty() ? "" : mark(tagged.begin) + " ";
    if (!tagged.id_end.empty()) body += "/[A-Za-z0-9]{1,16}/ " + mark(tagged.id_end) + " ";
    std::string name = std::string(tagged.name_prefix) + tool.name;
    if (tagged.index_sign != '\0') name += tagged.index_sign;
    body += lark_text(name) + " ";
    if (tagged.index_sign != '\0') body += "/[0-9]{1,3}/ ";
    if (!tagged.id_begin.empty()) body += fmt::format("({} /[A-Za-z0-9]{{1,9}}/)? ", mark(tagged.id_begin));
    const bool fenced =
        !tagged.body_begins.empty() && tagged.body_begins[0].find("```") != std::string_view::npos;
    if (!tagged.body_begins.empty()) body += mark(tagged.body_begins[0]) + " ";
    body += arguments(tool);
    if (fenced) body += " \"\\n```\"";
    if (!tagged.ends.empty()) body += " " + mark(tagged.ends[0]);
    return body;
  }

  std::string arguments(const ToolSet::Tool& tool) {
    if (form().arguments == ArgumentSyntax::json) return object_schema(tool);
    if (form().arguments == ArgumentSyntax::loose) return separated(tool, ":", ",") + " \"}\"";
    std::string body = "/\\n?/";
    for (const Property& property : properties_of(tool)) {
      const std::string written = add_rule(parameter(tool, property) + " /\\n?/");
      body += " " + written + (property.required ? "" : "?");
    }
    return body;
  }

  std::string python_call(const ToolSet::Tool& tool) {
    return fmt::format("{} {} \")\"", lark_text(tool.name + "("), separated(tool, "=", ", "));
  }

  // Writes named values with separators between them. Each step has two rules: before and after the first
  // value.
  std::string separated(const ToolSet::Tool& tool, std::string_view assign, std::string_view separator) {
    std::string first = add_rule("\"\"");
    std::string rest = first;
    const std::vector<Property> properties = properties_of(tool);
    for (size_t i = properties.size(); i-- > 0;) {
      const Property& property = properties[i];
      check_key(property.name);
      const std::string value =
          add_rule(lark_text(property.name + std::string(assign)) + " " + loose_value(tool, property));
      const std::string skip_first = property.required ? "" : " | " + first;
      const std::string skip_rest = property.required ? "" : " | " + rest;
      first = add_rule(fmt::format("{} {}{}", value, rest, skip_first));
      rest = add_rule(fmt::format("{} {} {}{}", lark_text(separator), value, rest, skip_rest));
    }
    return first;
  }

  static void check_key(std::string_view name) {
    for (const char byte : name) {
      const bool fits = is_ascii_letter_or_digit(byte) || byte == '_';
      if (!fits)
        throw Error(ErrorCode::unsupported,
                    "tools: \"{}\" is not a supported name; use only letters, digits and _", printable(name))
            .at("tools");
    }
  }

  std::string loose_value(const ToolSet::Tool& tool, const Property& property) {
    const std::string_view quote = parameter_syntax().begin;
    const bool quoted = form().arguments == ArgumentSyntax::loose && !quote.empty();
    if (!quoted || !types_of(property.schema).only_text() ||
        !ArgumentValues::is_simple(property.schema.target())) {
      return values_.json_value(tool, property);
    }
    return fmt::format(
        "{0} {1} {0}", mark(quote),
        values_.text_value(property.schema, {property.name, types_of(property.schema), quote}));
  }

  const ParameterSyntax& parameter_syntax() const { return form().tagged.parameter; }

  std::string parameter(const ToolSet::Tool& tool, const Property& property) {
    const ParameterSyntax& syntax = parameter_syntax();
    const ValueTypes types = types_of(property.schema);
    std::string end(syntax.value_end);
    if (const size_t pos = end.find(kKeyPlaceholder); pos != std::string::npos)
      end.replace(pos, 1, property.name);
    std::string before = std::string(syntax.begin) + property.name + std::string(syntax.key_end);
    const bool hinted = !syntax.string_hint.empty();
    if (hinted) before += hint_of(types);
    before += std::string(syntax.value_begin);
    if (syntax.lines) before += "\n";
    std::string value;
    if (types.only_text()) {
      value = fmt::format("({})", values_.text_values(property.schema, {property.name, types, end}));
    } else if (hinted || !types.has(ValueTypes::kString)) {
      value = values_.json_value(tool, property);
    } else {
      const std::string texts = values_.text_values(property.schema, {property.name, types, end});
      value = fmt::format("({}{}{})", texts, texts.empty() ? "" : " | ",
                          values_.json_value_without_strings(tool, property));
    }
    const std::string after = (syntax.lines ? "\n" : "") + end;
    return fmt::format("{} {} {}", mark(before), value, mark(after));
  }

  std::string hint_of(ValueTypes types) const {
    const std::string_view text = parameter_syntax().string_hint;
    if (types.only_text()) return std::string(text);
    if (text == "true") return "false";
    if (types.has(ValueTypes::kObject)) return "object";
    if (types.has(ValueTypes::kArray)) return "array";
    return types.has(ValueTypes::kNumber) ? "number" : "boolean";
  }

  const ResponseRules& rules_;
  const Dialect& dialect_;
  const SpecialTokens& special_;
  ArgumentValues values_;
  std::string source_;
  size_t num_rules_ = 0;
};

}  // namespace

std::string response_grammar(const ResponseRules& rules, const SpecialTokens& special) {
  return GrammarWriter(rules, special).write();
}

}  // namespace quire

#include "tests/core/response/written_calls.h"

namespace quire {
namespace {

std::string first(const Marks& marks) {
  return marks.empty() ? std::string() : std::string(marks[0]);
}

std::string with_key(std::string_view mark, const std::string& key) {
  std::string text(mark);
  if (const size_t pos = text.find(kKeyPlaceholder); pos != std::string::npos) text.replace(pos, 1, key);
  return text;
}

// Returns the section around calls of a form.
WrittenCall section_of(const CallForm& form) {
  WrittenCall call;
  const std::string open = first(form.opens);
  if (open == "{") return call;
  if (open.size() > 1 || form.body != CallBody::object) call.before = open == "[" ? "" : open;
  if (call.before.size() > 1 && call.before.back() == '{') call.before.pop_back();
  if (form.list) call.before += "[";
  call.after = (form.list ? "]" : "") + (first(form.closes) == "]" ? std::string() : first(form.closes));
  return call;
}

void add_inside(WrittenCall& call, const std::string& before, const std::string& after) {
  call.before += before;
  call.after = after + call.after;
}

void add_name(WrittenCall& call, const TaggedSyntax& tagged, const std::string& name) {
  std::string before = std::string(tagged.begin);
  if (!tagged.id_end.empty()) before += "abc123" + std::string(tagged.id_end);
  before += std::string(tagged.name_prefix) + name;
  if (tagged.index_sign != '\0') before += std::string(1, tagged.index_sign) + "0";
  const std::string body = first(tagged.body_begins);
  const std::string fence = body.find("```") == std::string::npos ? "" : "\n```";
  add_inside(call, before + body, fence + first(tagged.ends));
}

}  // namespace

bool writes_json(const Dialect& dialect) {
  if (dialect.forms.empty()) return false;
  const CallForm& form = dialect.forms[0];
  return form.body != CallBody::python && form.arguments == ArgumentSyntax::json;
}

WrittenCall write_json_call(const Dialect& dialect, const std::string& name) {
  if (!dialect.messages.write_call.empty()) {
    return {with_key(dialect.messages.write_call, name), first(dialect.messages.body_ends)};
  }
  const CallForm& form = dialect.forms[0];
  WrittenCall call = section_of(form);
  const ObjectSyntax& object = form.object;
  if (form.body == CallBody::tagged) {
    add_name(call, form.tagged, name);
  } else if (object.name_is_key) {
    add_inside(call, "{\"" + name + "\": ", "}");
  } else {
    const std::string key = std::string(object.name);
    add_inside(call, "{\"" + key + "\": \"" + name + "\", \"" + std::string(object.arguments) + "\": ", "}");
  }
  return call;
}

std::string write_parameter(const Dialect& dialect, const std::string& key, const std::string& value,
                            bool is_string) {
  const ParameterSyntax& syntax = dialect.forms[0].tagged.parameter;
  std::string text = std::string(syntax.begin) + key + std::string(syntax.key_end);
  const std::string line = syntax.lines ? "\n" : "";
  if (!syntax.string_hint.empty()) {
    text += is_string ? std::string(syntax.string_hint) : syntax.string_hint == "true" ? "false" : "object";
  }
  return text + std::string(syntax.value_begin) + line + value + line + with_key(syntax.value_end, key) +
         line;
}

WrittenCall write_parameter_call(const Dialect& dialect, const std::string& name) {
  WrittenCall call;
  if (!dialect.messages.write_call.empty()) {
    call = {with_key(dialect.messages.write_call, name), first(dialect.messages.body_ends)};
  }
  const WrittenCall section = section_of(dialect.forms[0]);
  add_inside(call, section.before, section.after);
  add_name(call, dialect.forms[0].tagged, name);
  return call;
}

}  // namespace quire

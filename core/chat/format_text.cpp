#include "core/chat/format_text.h"

#include <algorithm>
#include <cmath>

#include "core/chat/builtins.h"
#include "core/chat/compare.h"
#include "core/chat/field_spec.h"
#include "core/chat/operators.h"
#include "core/chat/print.h"

namespace quire::chat {
namespace {

// --- str.format

class BraceFormat {
 public:
  BraceFormat(Machine& machine, const Text& format, const Arguments& arguments)
      : machine_(machine), format_(format), bytes_(format.bytes()), arguments_(arguments) {}

  Value run(bool is_markup) {
    TextBuilder out;
    size_t pos = 0;
    while (pos < bytes_.size()) {
      machine_.step();
      machine_.check_text_bytes(out.num_bytes());
      const size_t brace = std::min(bytes_.find_first_of("{}", pos), bytes_.size());
      out.append(format_, pos, brace);
      pos = brace;
      if (pos == bytes_.size()) break;
      if (pos + 1 < bytes_.size() && bytes_[pos + 1] == bytes_[pos]) {
        out.append(format_, pos, pos + 1);
        pos += 2;
      } else if (bytes_[pos] == '}') {
        machine_.fail("single '}}' in a format string");
      } else {
        pos = append_replacement(out, pos + 1);
      }
    }
    return machine_.text(out, is_markup);
  }

 private:
  // Appends the field that begins at `pos`; returns the position after its closing brace.
  size_t append_replacement(TextBuilder& out, size_t pos) {
    size_t end = pos;
    for (int depth = 1; end < bytes_.size(); ++end) {
      if (bytes_[end] == '{') ++depth;
      if (bytes_[end] == '}' && --depth == 0) break;
    }
    if (end >= bytes_.size()) machine_.fail("a format string has an unclosed '{{'");
    const std::string_view field = std::string_view(bytes_).substr(pos, end - pos);
    const size_t name_end = std::min(field.find_first_of("!:"), field.size());
    Value value = look_up(field.substr(0, name_end));
    std::string_view rest = field.substr(name_end);
    if (!rest.empty() && rest[0] == '!') {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':'))
        machine_.fail("a field of a format string is invalid");
      value = converted(value, rest[1]);
      rest.remove_prefix(2);
    }
    if (!rest.empty()) rest.remove_prefix(1);
    append_field(machine_, out, read_field_spec(machine_, filled_in(rest)), value);
    return end + 1;
  }

  // Fills in the fields of a format spec; those fields cannot contain further fields.
  std::string filled_in(std::string_view spec) {
    std::string out;
    for (size_t pos = 0; pos < spec.size();) {
      if (spec[pos] != '{') {
        out += spec[pos++];
        continue;
      }
      const size_t end = spec.find('}', pos);
      if (end == std::string_view::npos) machine_.fail("a format string has an unclosed '{{'");
      out += str_of(machine_, look_up(spec.substr(pos + 1, end - pos - 1))).text().bytes();
      machine_.check_text_bytes(out.size());
      pos = end + 1;
    }
    return out;
  }

  Value converted(const Value& value, char conversion) {
    if (conversion == 's') return str_of(machine_, value);
    if (conversion != 'r' && conversion != 'a') machine_.fail("a format string has an unknown conversion");
    TextBuilder builder;
    append_repr(machine_, builder, value);
    return machine_.text(builder);
  }

  Value look_up(std::string_view path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, end));
    size_t pos = end;
    while (pos < path.size()) value = member(value, path, pos);
    return value;
  }

  Value member(const Value& value, std::string_view path, size_t& pos) {
    if (path[pos] == '.') {
      const size_t end = std::min(path.find_first_of(".[", pos + 1), path.size());
      const TextRef name = make_text(path.substr(pos + 1, end - pos - 1), true);
      pos = end;
      return attribute_of(machine_, value, name);
    }
    const size_t end = path.find(']', pos);
    if (path[pos] != '[' || end == std::string_view::npos)
      machine_.fail("a field of a format string is invalid");
    const std::string_view key = path.substr(pos + 1, end - pos - 1);
    pos = end + 1;
    size_t after = 0;
    const int64_t number = read_number(machine_, key, after);
    const bool is_number = number >= 0 && after == key.size();
    return item_of(machine_, value, is_number ? Value(number) : Value(make_text(key, true)));
  }

  Value argument(std::string_view name) {
    size_t end = 0;
    int64_t idx = name.empty() ? num_automatic_++ : read_number(machine_, name, end);
    if (idx >= 0 && end == name.size()) {
      if (static_cast<uint64_t>(idx) < arguments_.positional.size()) {
        return arguments_.positional[static_cast<size_t>(idx)];
      }
      machine_.fail("a format string uses more values than are given");
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    machine_.fail("a format string uses '{}', which is not given", printable(name));
  }

  Machine& machine_;
  const Text& format_;
  const std::string& bytes_;
  const Arguments& arguments_;
  int64_t num_automatic_ = 0;
};

// --- The % operator

class PercentFormat {
 public:
  PercentFormat(Machine& machine, const Text& format, const Value& values)
      : machine_(machine), format_(format), bytes_(format.bytes()), values_(values) {
    const auto* list = values.as<List>();
    if (list != nullptr && list->is_tuple) tuple_ = list;
    dict_ = values.as<Dict>();
  }

  Value run(bool is_markup) {
    TextBuilder out;
    size_t pos = 0;
    while (pos < bytes_.size()) {
      machine_.step();
      machine_.check_text_bytes(out.num_bytes());
      const size_t percent = std::min(bytes_.find('%', pos), bytes_.size());
      out.append(format_, pos, percent);
      pos = percent;
      if (pos < bytes_.size()) pos = append_conversion(out, pos + 1);
    }
    const bool all_used = tuple_ != nullptr ? idx_ == tuple_->items.size()
                                            : (dict_ != nullptr || idx_ > 0 || values_.as<List>() != nullptr);
    if (!all_used) machine_.fail("a format string does not use all given values");
    return machine_.text(out, is_markup);
  }

 private:
  size_t append_conversion(TextBuilder& out, size_t pos) {
    FieldSpec spec;
    bool named = false;
    Value value;
    if (pos < bytes_.size() && bytes_[pos] == '(') {
      value = named_value(pos);
      named = true;
    }
    pos = read_flags(spec, pos);
    if (pos >= bytes_.size()) machine_.fail("a format string ends inside a conversion");
    spec.type = bytes_[pos];
    if (spec.type == '%') {
      out.append(format_, pos, pos + 1);
    } else {
      append_value(out, spec, named ? value : next_value());
    }
    return pos + 1;
  }

  Value named_value(size_t& pos) {
    const size_t end = bytes_.find(')', pos);
    if (dict_ == nullptr || end == std::string::npos)
      machine_.fail("a format string with names takes a mapping");
    const std::string key = bytes_.substr(pos + 1, end - pos - 1);
    const Value* found = dict_->find(machine_, key);
    if (found == nullptr) machine_.fail("a format string uses '{}', which is not given", printable(key));
    pos = end + 1;
    return *found;
  }

  Value next_value() {
    if (tuple_ == nullptr) {
      if (idx_++ > 0) machine_.fail("a format string uses more values than are given");
      return values_;
    }
    if (idx_ >= tuple_->items.size()) machine_.fail("a format string uses more values than are given");
    return tuple_->items[idx_++];
  }

  int64_t star_or_number(size_t& pos) {
    if (pos < bytes_.size() && bytes_[pos] == '*') {
      ++pos;
      const Value value = next_value();
      if (!value.is_integer()) machine_.fail("the width of a format must be a whole number");
      return value.integer();
    }
    return read_number(machine_, bytes_, pos);
  }

  size_t read_flags(FieldSpec& spec, size_t pos) {
    for (; pos < bytes_.size(); ++pos) {
      const char c = bytes_[pos];
      if (c == '-') {
        spec.align = '<';
      } else if (c == '+' || c == ' ') {
        spec.sign = c;
      } else if (c == '#') {
        spec.alternate = true;
      } else if (c == '0') {
        spec.zero = true;
      } else {
        break;
      }
    }
    if (spec.align == '\0' && !spec.zero) spec.align = '>';
    spec.width = std::max<int64_t>(star_or_number(pos), 0);
    if (pos < bytes_.size() && bytes_[pos] == '.') {
      ++pos;
      spec.precision = std::max<int64_t>(star_or_number(pos), 0);
    }
    return pos;
  }

  void append_value(TextBuilder& out, FieldSpec spec, const Value& value) {
    switch (spec.type) {
      case 's':
        return append_padded_text(out, spec, str_of(machine_, value));
      case 'r':
      case 'a': {
        TextBuilder builder;
        append_repr(machine_, builder, value);
        return append_padded_text(out, spec, machine_.text(builder));
      }
      case 'd':
      case 'i':
      case 'u':
        return append_whole(out, spec, value);
      case 'x':
      case 'X':
      case 'o':
        require_number(value.is_integer(), value);
        return append_integer(machine_, out, spec, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        require_number(value.is_number(), value);
        return append_real(machine_, out, spec, value);
      default:
        machine_.fail("a format string has an unknown conversion");
    }
  }

  void append_padded_text(TextBuilder& out, FieldSpec spec, const Value& text) {
    spec.zero = false;
    if (spec.align == '\0') spec.align = '>';
    append_text(machine_, out, spec, text.text());
  }

  void append_whole(TextBuilder& out, const FieldSpec& spec, const Value& value) {
    require_number(value.is_number() && (value.is_integer() || std::fabs(value.number()) < 9e18), value);
    const auto whole = value.is_integer() ? value.integer() : static_cast<int64_t>(value.number());
    append_integer(machine_, out, spec, Value(whole).as_content(value.is_content()));
  }

  void require_number(bool holds, const Value& value) {
    if (!holds) machine_.fail("a format conversion takes a number, not {}", type_name(value));
  }

  Machine& machine_;
  const Text& format_;
  const std::string& bytes_;
  Value values_;
  const List* tuple_ = nullptr;
  const Dict* dict_ = nullptr;
  size_t idx_ = 0;
};

}  // namespace

Value format_percent(Machine& machine, const Value& format, const Value& values) {
  const bool is_markup = format.text().is_markup();
  return PercentFormat(machine, format.text(), values).run(is_markup);
}

Value format_braces(Machine& machine, const Value& format, const Arguments& arguments) {
  const bool is_markup = format.text().is_markup();
  return BraceFormat(machine, format.text(), arguments).run(is_markup);
}

}  // namespace quire::chat

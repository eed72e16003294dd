// Filters of chat templates that work on iterable values.
#include <algorithm>
#include <array>
#include <functional>

#include "core/chat/compare.h"
#include "core/chat/filters.h"
#include "core/chat/methods.h"
#include "core/chat/operators.h"
#include "core/chat/parameters.h"
#include "core/chat/print.h"
#include "core/chat/text_operations.h"

namespace quire::chat {
namespace {

// --- Lazy filters

// A lazy iterator that applies a step to each item of a source.
struct Stream final : Iterator {
  // A function that replaces an item by its result, or returns false to skip it.
  using Step = std::function<bool(Machine& machine, Value& item)>;
  Stream(Iterator* the_source, Step the_step) : source(the_source), step(std::move(the_step)) {}
  bool next(Machine& machine, Value& out) override {
    while (source != nullptr && source->next(machine, out)) {
      machine.step();
      if (step(machine, out)) return true;
    }
    return false;
  }
  Iterator* source;  // null if there are no items
  Step step;
};

Value stream(Machine& machine, const Value& value, Stream::Step step) {
  Iterator* source = is_true(value) ? &iterate(machine, value) : nullptr;
  return Value(static_cast<Object*>(machine.make<Stream>(source, std::move(step))));
}

// Removes and returns the first positional argument.
Value take_first(Machine& machine, Arguments& arguments, std::string_view what) {
  if (arguments.positional.empty()) machine.fail("{} is missing", what);
  Value first = std::move(arguments.positional.front());
  arguments.positional.erase(arguments.positional.begin());
  return first;
}

Builtin named_builtin(Machine& machine, const Value& name, Builtin (*find)(std::string_view),
                      std::string_view kind) {
  const Builtin builtin = name.is_text() ? find(name.text().bytes()) : nullptr;
  if (builtin == nullptr) machine.fail("there is no {} of that name", kind);
  return builtin;
}

Value call_on(Machine& machine, Builtin builtin, const Arguments& more, const Value& subject) {
  Arguments arguments = more;
  arguments.positional.insert(arguments.positional.begin(), subject);
  return builtin(machine, arguments);
}

Value map_attribute(Machine& machine, const Value& subject, Arguments& arguments) {
  Arguments named;
  named.named = std::move(arguments.named);
  const Parameters p(machine, named, {"attribute", "default"}, 1);
  const Value attribute = p[0];
  const Value fallback = p.is_none(1) ? Value::none() : p[1];
  return stream(machine, subject, [attribute, fallback](Machine& m, Value& item) {
    item = item_at_path(m, item, attribute);
    if (item.is_undefined() && !fallback.is_none()) item = fallback;
    return true;
  });
}

Value map(Machine& machine, Arguments& arguments) {
  const Value subject = take_first(machine, arguments, "the sequence of map");
  const bool by_attribute = std::any_of(arguments.named.begin(), arguments.named.end(),
                                        [](const auto& named) { return named.first == "attribute"; });
  if (arguments.positional.empty() && by_attribute) return map_attribute(machine, subject, arguments);
  const Value name = take_first(machine, arguments, "the filter of map");
  return stream(machine, subject, [name, more = arguments](Machine& m, Value& item) {
    item = call_on(m, named_builtin(m, name, find_filter, "filter"), more, item);
    return true;
  });
}

template <bool Wanted, bool ByAttribute>
Value select(Machine& machine, Arguments& arguments) {
  const Value subject = take_first(machine, arguments, "the sequence to select from");
  const Value attribute = ByAttribute ? take_first(machine, arguments, "the attribute") : Value::none();
  if (arguments.positional.empty()) {
    return stream(machine, subject, [attribute](Machine& m, Value& item) {
      return is_true(item_at_path(m, item, attribute)) == Wanted;
    });
  }
  const Value name = take_first(machine, arguments, "the test");
  return stream(machine, subject, [attribute, name, more = arguments](Machine& m, Value& item) {
    const Builtin test = named_builtin(m, name, find_test, "test");
    return is_true(call_on(m, test, more, item_at_path(m, item, attribute))) == Wanted;
  });
}

Value items(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value"}, 1);
  if (p[0].is_undefined()) return stream(machine, p[0], nullptr);
  const auto* dict = p[0].as<Dict>();
  if (dict == nullptr) machine.fail("items takes a mapping, not {}", type_name(p[0]));
  const Value view(machine.make<DictView>(*dict, DictView::Part::items, p[0].is_content()));
  return Value(static_cast<Object*>(&iterate(machine, view)));
}

// --- Sort keys

// Returns the key for comparisons that ignore case.
Value without_case(Machine& machine, const Value& value) {
  return value.is_text() ? in_case(machine, value.text(), CaseChange::lower) : value;
}

struct Keyed {
  Value key;
  Value item;
};

Value key_of(Machine& machine, const Value& item, const Value& attribute, bool case_sensitive) {
  const Value value = item_at_path(machine, item, attribute);
  return case_sensitive ? value : without_case(machine, value);
}

// Returns the sort key of an item. Several attributes separated by commas give a list of keys.
Value sort_key(Machine& machine, const Value& item, const Value& attribute, bool case_sensitive) {
  std::vector<Value> keys;
  if (!attribute.is_text()) {
    keys.push_back(key_of(machine, item, attribute, case_sensitive));
  } else {
    const std::string& names = attribute.text().bytes();
    for (size_t begin = 0; begin <= names.size();) {
      const size_t end = std::min(names.find(',', begin), names.size());
      const Value name(make_text(std::string_view(names).substr(begin, end - begin), true));
      keys.push_back(key_of(machine, item, name, case_sensitive));
      begin = end + 1;
    }
  }
  return Value(machine.make_list(std::move(keys)));
}

void sort_by_key(Machine& machine, std::vector<Keyed>& all, bool reverse) {
  std::stable_sort(all.begin(), all.end(), [&](const Keyed& a, const Keyed& b) {
    machine.step();
    return reverse ? is_less(machine, b.key, a.key) : is_less(machine, a.key, b.key);
  });
}

List* items_in_order(Machine& machine, const std::vector<Keyed>& all) {
  std::vector<Value> sorted;
  for (const Keyed& each : all) sorted.push_back(each.item);
  return machine.make_list(std::move(sorted));
}

Value sort(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "reverse", "case_sensitive", "attribute"}, 1);
  std::vector<Keyed> all;
  for (const Value& item : list_of(machine, p[0])) {
    all.push_back({sort_key(machine, item, p.has(3) ? p[3] : Value::none(), p.flag(2, false)), item});
  }
  sort_by_key(machine, all, p.flag(1, false));
  return Value(items_in_order(machine, all));
}

Value dictsort(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "case_sensitive", "by", "reverse"}, 1);
  const auto* dict = p[0].as<Dict>();
  if (p[0].is_undefined()) machine.fail_undefined(p[0]);
  if (dict == nullptr) machine.fail("dictsort takes a mapping, not {}", type_name(p[0]));
  const std::string by = p.has(2) ? p.text(2)->bytes() : "key";
  if (by != "key" && by != "value") machine.fail("dictsort can sort only by \"key\" or by \"value\"");
  std::vector<Keyed> all;
  for (const Dict::Entry& entry : dict->entries) {
    const Value& wanted = by == "key" ? entry.key : entry.value;
    all.push_back({p.flag(1, false) ? wanted : without_case(machine, wanted),
                   Value(machine.make_list({entry.key, entry.value}, true))});
  }
  sort_by_key(machine, all, p.flag(3, false));
  return Value(items_in_order(machine, all));
}

Value unique(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "case_sensitive", "attribute"}, 1);
  Dict* seen = machine.make<Dict>();
  const bool case_sensitive = p.flag(1, false);
  const Value attribute = p.has(2) ? p[2] : Value::none();
  Iterator* source = &iterate(machine, p[0]);
  const auto step = [seen, case_sensitive, attribute](Machine& m, Value& item) {
    const Value key = key_of(m, item, attribute, case_sensitive);
    if (seen->find(m, key) != nullptr) return false;
    seen->set(m, key, Value::none());
    return true;
  };
  return Value(static_cast<Object*>(machine.make<Stream>(source, step)));
}

template <bool Largest>
Value extreme(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "case_sensitive", "attribute"}, 1);
  const Value attribute = p.has(2) ? p[2] : Value::none();
  Value best = Value::absent(Absence::item, nullptr);
  Value best_key;
  bool any = false;
  for (const Value& item : list_of(machine, p[0])) {
    const Value key = key_of(machine, item, attribute, p.flag(1, false));
    if (any && !(Largest ? is_less(machine, best_key, key) : is_less(machine, key, best_key))) continue;
    best = item;
    best_key = key;
    any = true;
  }
  return best;
}

Value groupby(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "attribute", "default", "case_sensitive"}, 2);
  const auto value_of = [&](const Value& item) {
    const Value found = item_at_path(machine, item, p[1]);
    return found.is_undefined() && !p.is_none(2) ? p[2] : found;
  };
  std::vector<Keyed> all;
  for (const Value& item : list_of(machine, p[0])) {
    const Value value = value_of(item);
    all.push_back({p.flag(3, false) ? value : without_case(machine, value), item});
  }
  sort_by_key(machine, all, false);
  std::vector<Value> groups;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    std::vector<Value> members;
    while (end < all.size() && equals(machine, all[end].key, all[begin].key))
      members.push_back(all[end++].item);
    groups.push_back(Value(
        machine.make_list({value_of(all[begin].item), Value(machine.make_list(std::move(members)))}, true)));
    begin = end;
  }
  return Value(machine.make_list(std::move(groups)));
}

// --- Other filters

Value length(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value"}, 1);
  const int64_t size = length_of(p[0]);
  if (size < 0) machine.fail("{} has no length", type_name(p[0]));
  return Value(size);
}

Value fallback(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "default_value", "boolean"}, 1);
  const bool replaces = p[0].is_undefined() || (p.flag(2, false) && !is_true(p[0]));
  if (!replaces) return p[0];
  return p.has(1) ? p[1] : machine.text("");
}

Value first(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"seq"}, 1);
  Value item;
  if (iterate(machine, p[0]).next(machine, item)) return item;
  return Value::absent(Absence::item, nullptr);
}

Value last(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"seq"}, 1);
  if (length_of(p[0]) < 0) machine.fail("{} has no last item", type_name(p[0]));
  std::vector<Value> all = list_of(machine, p[0]);
  return all.empty() ? Value::absent(Absence::item, nullptr) : all.back();
}

Value list(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value"}, 1);
  return Value(machine.make_list(list_of(machine, p[0])));
}

Value join(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "d", "attribute"}, 1);
  std::vector<Value> texts;
  for (const Value& item : list_of(machine, p[0])) {
    texts.push_back(str_of(machine, p.has(2) ? item_at_path(machine, item, p[2]) : item));
  }
  const Value separator = p.has(1) ? str_of(machine, p[1]) : machine.text("");
  return joined(machine, separator.text(), texts);
}

Value reverse(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value"}, 1);
  if (p[0].is_text()) return slice_of(machine, p[0], Value(), Value(), Value(int64_t{-1}));
  std::vector<Value> all = list_of(machine, p[0]);
  std::reverse(all.begin(), all.end());
  const Value list(machine.make_list(std::move(all)));
  // As in Python, reversing a list or another value with a length returns an iterator.
  return length_of(p[0]) < 0 ? list : Value(static_cast<Object*>(&iterate(machine, list)));
}

Value sum(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"iterable", "attribute", "start"}, 1);
  Value total = p.has(2) ? p[2] : Value(int64_t{0});
  for (const Value& item : list_of(machine, p[0])) {
    total = apply_binary(machine, BinaryOp::add, total, p.has(1) ? item_at_path(machine, item, p[1]) : item);
  }
  return total;
}

Value batch(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "linecount", "fill_with"}, 2);
  const int64_t size = p.integer(1);
  if (size < 1) machine.fail("batch: linecount must be at least 1");
  std::vector<Value> batches;
  std::vector<Value> current;
  for (const Value& item : list_of(machine, p[0])) {
    if (static_cast<int64_t>(current.size()) == size) {
      batches.push_back(Value(machine.make_list(std::exchange(current, {}))));
    }
    current.push_back(item);
  }
  if (!current.empty()) {
    while (!p.is_none(2) && static_cast<int64_t>(current.size()) < size) {
      machine.take_bytes(sizeof(Value));
      current.push_back(p[2]);
    }
    batches.push_back(Value(machine.make_list(std::move(current))));
  }
  return Value(static_cast<Object*>(&iterate(machine, Value(machine.make_list(std::move(batches))))));
}

Value slice(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "slices", "fill_with"}, 2);
  const std::vector<Value> all = list_of(machine, p[0]);
  const int64_t num_slices = p.integer(1);
  if (num_slices < 1) machine.fail("slice: slices must be at least 1");
  const auto size = static_cast<int64_t>(all.size());
  std::vector<Value> slices;
  int64_t begin = 0;
  for (int64_t i = 0; i < num_slices; ++i) {
    const bool has_extra = i < size % num_slices;
    const int64_t end = begin + size / num_slices + (has_extra ? 1 : 0);
    std::vector<Value> part(all.begin() + begin, all.begin() + end);
    if (!p.is_none(2) && !has_extra) part.push_back(p[2]);
    slices.push_back(Value(machine.make_list(std::move(part))));
    begin = end;
  }
  return Value(static_cast<Object*>(&iterate(machine, Value(machine.make_list(std::move(slices))))));
}

// Returns an attribute like `.` does, but never a key of a dict.
Value attr(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"obj", "name"}, 2);
  const TextRef name = p.text(1);
  const Value found = attribute_of(machine, p[0], name);
  const bool is_key = p[0].as<Dict>() != nullptr && find_method(p[0], name->bytes()) == nullptr;
  return is_key && !found.is_undefined() ? Value::absent(Absence::attribute, name) : found;
}

constexpr std::array kFilters = {
    NamedBuiltin{"attr", attr},
    NamedBuiltin{"batch", batch},
    NamedBuiltin{"count", length},
    NamedBuiltin{"d", fallback},
    NamedBuiltin{"default", fallback},
    NamedBuiltin{"dictsort", dictsort},
    NamedBuiltin{"first", first},
    NamedBuiltin{"groupby", groupby},
    NamedBuiltin{"items", items},
    NamedBuiltin{"join", join},
    NamedBuiltin{"last", last},
    NamedBuiltin{"length", length},
    NamedBuiltin{"list", list},
    NamedBuiltin{"map", map},
    NamedBuiltin{"max", extreme<true>},
    NamedBuiltin{"min", extreme<false>},
    NamedBuiltin{"reject", select<false, false>},
    NamedBuiltin{"rejectattr", select<false, true>},
    NamedBuiltin{"reverse", reverse},
    NamedBuiltin{"select", select<true, false>},
    NamedBuiltin{"selectattr", select<true, true>},
    NamedBuiltin{"slice", slice},
    NamedBuiltin{"sort", sort},
    NamedBuiltin{"sum", sum},
    NamedBuiltin{"unique", unique},
};

}  // namespace

Builtin find_sequence_filter(std::string_view name) {
  return find_named(kFilters, name);
}

Builtin find_filter(std::string_view name) {
  if (const Builtin text = find_text_filter(name)) return text;
  if (const Builtin number = find_number_filter(name)) return number;
  return find_sequence_filter(name);
}

}  // namespace quire::chat

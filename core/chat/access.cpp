// Attribute, item and slice access in chat templates, and the methods of lists and dicts.
#include <algorithm>
#include <array>

#include "core/base/utf8.h"
#include "core/chat/compare.h"
#include "core/chat/methods.h"
#include "core/chat/parameters.h"

namespace quire::chat {
namespace {

// --- Methods

Value dict_get(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "key", "default"}, 2);
  const Value* found = p[0].as<Dict>()->find(machine, p[1]);
  if (found != nullptr) return *found;
  return p.has(2) ? p[2] : Value::none();
}

template <DictView::Part Part>
Value dict_view(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self"}, 1);
  const bool content = p[0].is_content();
  return Value(machine.make<DictView>(*p[0].as<Dict>(), Part, content)).as_content(content);
}

Value dict_copy(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self"}, 1);
  Dict* copy = machine.make<Dict>();
  for (const Dict::Entry& entry : p[0].as<Dict>()->entries) copy->set(machine, entry.key, entry.value);
  return Value(copy).as_content(p[0].is_content());
}

Value list_copy(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self"}, 1);
  const List& list = *p[0].as<List>();
  return Value(machine.make_list(list.items, list.is_tuple)).as_content(p[0].is_content());
}

Value list_count(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "value"}, 2);
  const std::vector<Value>& items = p[0].as<List>()->items;
  return Value(static_cast<int64_t>(std::count_if(
      items.begin(), items.end(), [&](const Value& item) { return equals(machine, item, p[1]); })));
}

Value list_index(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self", "value"}, 2);
  const std::vector<Value>& items = p[0].as<List>()->items;
  const auto found = std::find_if(items.begin(), items.end(),
                                  [&](const Value& item) { return equals(machine, item, p[1]); });
  if (found == items.end()) machine.fail("index(): the item is not in the list");
  return Value(static_cast<int64_t>(found - items.begin()));
}

Value is_integer(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"self"}, 1);
  return Value(p[0].number() == static_cast<double>(static_cast<int64_t>(p[0].number())));
}

constexpr std::array kDictMethods = {
    NamedBuiltin{"copy", dict_copy},
    NamedBuiltin{"get", dict_get},
    NamedBuiltin{"items", dict_view<DictView::Part::items>},
    NamedBuiltin{"keys", dict_view<DictView::Part::keys>},
    NamedBuiltin{"values", dict_view<DictView::Part::values>},
};
constexpr std::array kListMethods = {
    NamedBuiltin{"copy", list_copy},
    NamedBuiltin{"count", list_count},
    NamedBuiltin{"index", list_index},
};
constexpr std::array<std::string_view, 5> kDictChanges = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::array<std::string_view, 8> kListChanges = {"append", "clear",  "extend",  "insert",
                                                          "pop",    "remove", "reverse", "sort"};

template <typename Names>
bool has_name(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns whether the name is a Python internal such as "__class__".
bool is_internal_name(std::string_view name) {
  return name.size() > 4 && name.substr(0, 2) == "__" && name.substr(name.size() - 2) == "__";
}

Value char_at(Machine& machine, const TextRef& text, int64_t idx) {
  const size_t begin = text->byte_offset(static_cast<size_t>(idx));
  if (!text->is_ascii()) machine.step(text->bytes().size() / 16);
  TextBuilder builder;
  builder.append(*text, begin, begin + decode_utf8(text->bytes(), begin).length);
  return machine.text(builder, text->is_markup());
}

// Sets `out` to the item at index `idx`; negative indexes count from the end. Returns false if there is no
// such item.
bool sequence_item(Machine& machine, const Value& object, int64_t idx, Value& out) {
  const int64_t length = length_of(object);
  if (idx < 0) idx += length;
  if (idx < 0 || idx >= length) return false;
  if (object.is_text()) {
    out = char_at(machine, object.text_ref(), idx);
  } else if (const auto* list = object.as<List>()) {
    out = list->items[static_cast<size_t>(idx)];
  } else {
    out = Value(object.as<Range>()->at(idx));
  }
  return true;
}

bool is_sequence(const Value& object) {
  return object.is_text() || object.as<List>() != nullptr || object.as<Range>() != nullptr;
}

// Finds a member by subscript: a key of a dict or an index of a sequence.
bool find_item(Machine& machine, const Value& object, const Value& key, Value& out) {
  if (const auto* dict = object.as<Dict>()) {
    const Value* found = dict->find(machine, key);
    if (found != nullptr) out = *found;
    return found != nullptr;
  }
  return key.is_integer() && is_sequence(object) && sequence_item(machine, object, key.integer(), out);
}

// Finds an attribute, in Python's sense of the word.
bool find_attribute(Machine& machine, const Value& object, const TextRef& name, Value& out) {
  const std::string& key = name->bytes();
  if (is_internal_name(key) || is_forbidden_method(object, key)) {
    out = Value::absent(Absence::forbidden, name);
    return true;
  }
  if (const auto* space = object.as<Namespace>()) {
    const Value* found = space->members.find(machine, key);
    if (found != nullptr) out = *found;
    return found != nullptr;
  }
  if (auto* callable = object.as<Callable>()) {
    out = callable->attribute(machine, key);
    return !out.is_undefined() || out.absence() != Absence::attribute;
  }
  const Builtin method = find_method(object, key);
  if (method == nullptr) return false;
  out = Value(machine.make<Function>(method, object));
  return true;
}

// The items that a Python slice selects from `length` items.
struct SlicePlaces {
  int64_t start;
  int64_t step;
  int64_t size;
};

int64_t clamp_place(int64_t place, int64_t length, int64_t step) {
  if (place < 0) place = std::max(place + length, step < 0 ? int64_t{-1} : int64_t{0});
  return std::min(place, step < 0 ? length - 1 : length);
}

SlicePlaces slice_places(Machine& machine, int64_t length, const Value& start, const Value& stop,
                         const Value& step) {
  const auto number = [&](const Value& value, int64_t fallback) {
    if (value.is_undefined() || value.is_none()) return fallback;
    if (!value.is_integer())
      machine.fail("the bounds and the step of a slice must be whole numbers, not {}", type_name(value));
    return std::clamp<int64_t>(value.integer(), -INT64_MAX / 4, INT64_MAX / 4);
  };
  const bool has_start = !start.is_undefined() && !start.is_none();
  const bool has_stop = !stop.is_undefined() && !stop.is_none();
  SlicePlaces places{0, number(step, 1), 0};
  if (places.step == 0) machine.fail("slice step cannot be zero");
  const bool down = places.step < 0;
  places.start = has_start ? clamp_place(number(start, 0), length, places.step) : (down ? length - 1 : 0);
  const int64_t end = has_stop ? clamp_place(number(stop, 0), length, places.step) : (down ? -1 : length);
  const int64_t span = down ? places.start - end : end - places.start;
  const int64_t stride = down ? -places.step : places.step;
  places.size = span > 0 ? (span - 1) / stride + 1 : 0;
  return places;
}

Value text_slice(Machine& machine, const TextRef& text, const SlicePlaces& places) {
  TextBuilder builder;
  if (!text->is_ascii()) machine.step(text->bytes().size() / 16);
  if (places.step == 1) {
    builder.append(*text, text->byte_offset(static_cast<size_t>(places.start)),
                   text->byte_offset(static_cast<size_t>(places.start + places.size)));
    return machine.text(builder, text->is_markup());
  }
  std::vector<size_t> offsets;
  for (size_t pos = 0; !text->is_ascii() && pos < text->bytes().size();
       pos += decode_utf8(text->bytes(), pos).length) {
    offsets.push_back(pos);
  }
  machine.step(static_cast<uint64_t>(places.size));
  for (int64_t i = 0; i < places.size; ++i) {
    const auto place = static_cast<size_t>(places.start + i * places.step);
    const size_t begin = offsets.empty() ? place : offsets[place];
    builder.append(*text, begin, begin + decode_utf8(text->bytes(), begin).length);
  }
  return machine.text(builder, text->is_markup());
}

}  // namespace

bool is_forbidden_method(const Value& value, std::string_view name) {
  if (value.as<Dict>() != nullptr) return has_name(kDictChanges, name);
  const auto* list = value.as<List>();
  return list != nullptr && !list->is_tuple && has_name(kListChanges, name);
}

Builtin find_method(const Value& value, std::string_view name) {
  if (value.is_text()) return find_text_method(name);
  if (value.as<Dict>() != nullptr) return find_named(kDictMethods, name);
  if (value.is_real() && name == "is_integer") return is_integer;
  const auto* list = value.as<List>();
  if (list == nullptr || (list->is_tuple && name == "copy")) return nullptr;
  return find_named(kListMethods, name);
}

Value attribute_of(Machine& machine, const Value& object, const TextRef& name) {
  if (object.is_undefined()) machine.fail_undefined(object);
  Value found;
  if (find_attribute(machine, object, name, found)) return found;
  if (object.as<Dict>() != nullptr && find_item(machine, object, Value(name), found)) return found;
  return Value::absent(Absence::attribute, name);
}

Value item_of(Machine& machine, const Value& object, const Value& key) {
  if (object.is_undefined()) machine.fail_undefined(object);
  Value found;
  const auto* list = key.as<List>();
  const bool can_be_key = key.as<Dict>() == nullptr && (list == nullptr || list->is_tuple);
  if (can_be_key && find_item(machine, object, key, found)) return found;
  if (!key.is_text()) return Value::absent(Absence::item, nullptr);
  if (find_attribute(machine, object, key.text_ref(), found)) return found;
  return Value::absent(Absence::attribute, key.text_ref());
}

Value slice_of(Machine& machine, const Value& object, const Value& start, const Value& stop,
               const Value& step) {
  if (object.is_undefined()) machine.fail_undefined(object);
  if (!is_sequence(object)) machine.fail("{} cannot be sliced", type_name(object));
  const SlicePlaces places = slice_places(machine, length_of(object), start, stop, step);
  if (object.is_text()) return text_slice(machine, object.text_ref(), places);
  if (const auto* range = object.as<Range>()) {
    const int64_t first = places.size > 0 ? range->at(places.start) : range->start;
    return Value(machine.make<Range>(first, range->step * places.step, places.size));
  }
  const List& list = *object.as<List>();
  machine.take_bytes(static_cast<size_t>(places.size) * sizeof(Value));
  std::vector<Value> items;
  for (int64_t i = 0; i < places.size; ++i) {
    items.push_back(list.items[static_cast<size_t>(places.start + i * places.step)]);
  }
  return Value(machine.make<List>(std::move(items), list.is_tuple)).as_content(object.is_content());
}

Value item_at_path(Machine& machine, const Value& object, const Value& path) {
  if (!path.is_text()) return path.is_none() || path.is_undefined() ? object : item_of(machine, object, path);
  Value value = object;
  const std::string& names = path.text().bytes();
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find('.', begin), names.size());
    const std::string_view name = std::string_view(names).substr(begin, end - begin);
    const bool is_number =
        !name.empty() && name.size() < 18 && name.find_first_not_of("0123456789") == name.npos;
    value = item_of(machine, value,
                    is_number ? Value(int64_t{std::stoll(std::string(name))}) : Value(make_text(name, true)));
    begin = end + 1;
  }
  return value;
}

Value call_value(Machine& machine, const Value& callee, Arguments& arguments) {
  if (callee.is_undefined()) machine.fail_undefined(callee);
  auto* callable = callee.as<Callable>();
  if (callable == nullptr) machine.fail("{} cannot be called", type_name(callee));
  return callable->call(machine, arguments);
}

}  // namespace quire::chat

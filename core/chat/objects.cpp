#include "core/chat/objects.h"

#include "core/base/utf8.h"
#include "core/chat/compare.h"
#include "core/chat/machine.h"

namespace quire::chat {
namespace {

constexpr size_t kMaxSearched = 8;  // dicts of at most this size are searched linearly
constexpr size_t kNowhere = SIZE_MAX;

struct ListIterator final : Iterator {
  explicit ListIterator(const std::vector<Value>* the_items) : items(the_items) {}
  bool next(Machine&, Value& out) override {
    if (items == nullptr || idx >= items->size()) return false;
    out = (*items)[idx++];
    return true;
  }
  const std::vector<Value>* items;  // null if there are no items
  size_t idx = 0;
};

struct DictIterator final : Iterator {
  DictIterator(const Dict& the_dict, DictView::Part the_part, bool content)
      : dict(&the_dict), part(the_part), from_content(content) {}
  bool next(Machine& machine, Value& out) override {
    if (idx >= dict->entries.size()) return false;
    const Dict::Entry& entry = dict->entries[idx++];
    if (part == DictView::Part::keys) {
      out = entry.key;
    } else if (part == DictView::Part::values) {
      out = entry.value;
    } else {
      out = Value(machine.make_list({entry.key, entry.value}, true)).as_content(from_content);
    }
    return true;
  }
  const Dict* dict;
  DictView::Part part;
  bool from_content;
  size_t idx = 0;
};

struct RangeIterator final : Iterator {
  explicit RangeIterator(const Range& the_range) : range(&the_range) {}
  bool next(Machine&, Value& out) override {
    if (idx >= range->size) return false;
    out = Value(range->at(idx++));
    return true;
  }
  const Range* range;
  int64_t idx = 0;
};

struct CharIterator final : Iterator {
  explicit CharIterator(TextRef the_text) : text(std::move(the_text)) {}
  bool next(Machine& machine, Value& out) override {
    if (offset >= text->bytes().size()) return false;
    const size_t end = offset + decode_utf8(text->bytes(), offset).length;
    TextBuilder builder;
    builder.append(*text, offset, end);
    out = machine.text(builder, text->is_markup());
    offset = end;
    return true;
  }
  TextRef text;
  size_t offset = 0;
};

}  // namespace

const Value* Dict::find(Machine& machine, const Value& key) const {
  const size_t idx = index_of(machine, key, hash_of(machine, key));
  return idx == kNowhere ? nullptr : &entries[idx].value;
}

const Value* Dict::find(Machine& machine, std::string_view key) const {
  if (entries.size() > kMaxSearched) return find(machine, Value(make_text(key, true)));
  for (const Entry& entry : entries) {
    if (entry.key.is_text() && entry.key.text().bytes() == key) return &entry.value;
  }
  return nullptr;
}

void Dict::set(Machine& machine, const Value& key, Value value) {
  const size_t hash = hash_of(machine, key);
  const size_t idx = index_of(machine, key, hash);
  if (idx != kNowhere) {
    entries[idx].value = std::move(value);
    return;
  }
  machine.take_bytes(sizeof(Entry));
  entries.push_back({key, std::move(value)});
  if (entries.size() <= kMaxSearched) return;
  if (places_.empty()) {
    for (size_t i = 0; i + 1 < entries.size(); ++i) places_.emplace(hash_of(machine, entries[i].key), i);
  }
  places_.emplace(hash, entries.size() - 1);
}

size_t Dict::index_of(Machine& machine, const Value& key, size_t hash) const {
  if (places_.empty()) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (equals(machine, entries[i].key, key)) return i;
    }
    return kNowhere;
  }
  const auto [first, last] = places_.equal_range(hash);
  for (auto place = first; place != last; ++place) {
    machine.step();
    if (equals(machine, entries[place->second].key, key)) return place->second;
  }
  return kNowhere;
}

Value Callable::attribute(Machine&, std::string_view name) {
  return Value::absent(Absence::attribute, make_text(name, true));
}

Value Function::call(Machine& machine, Arguments& arguments) {
  if (bound) arguments.positional.insert(arguments.positional.begin(), self);
  return builtin(machine, arguments);
}

bool is_iterable(const Value& value) {
  if (value.is_text() || value.is_undefined()) return true;
  const Object* object = value.object();
  if (object == nullptr) return false;
  return object->type() != ObjectType::callable && object->type() != ObjectType::name_space;
}

Iterator& iterate(Machine& machine, const Value& value) {
  if (value.is_text()) return *machine.make<CharIterator>(value.text_ref());
  if (value.is_undefined() && value.absence() != Absence::forbidden) {
    return *machine.make<ListIterator>(nullptr);
  }
  if (const auto* list = value.as<List>()) return *machine.make<ListIterator>(&list->items);
  if (const auto* dict = value.as<Dict>()) {
    return *machine.make<DictIterator>(*dict, DictView::Part::keys, value.is_content());
  }
  if (const auto* view = value.as<DictView>()) {
    return *machine.make<DictIterator>(*view->dict, view->part, view->from_content);
  }
  if (const auto* range = value.as<Range>()) return *machine.make<RangeIterator>(*range);
  if (auto* iterator = value.as<Iterator>()) return *iterator;
  machine.fail("{} is not iterable", type_name(value));
}

std::vector<Value> list_of(Machine& machine, const Value& value) {
  std::vector<Value> items;
  Iterator& iterator = iterate(machine, value);
  Value item;
  while (iterator.next(machine, item)) {
    machine.take_bytes(sizeof(Value));
    machine.step();
    items.push_back(item);
  }
  return items;
}

int64_t length_of(const Value& value) {
  if (value.is_text()) return static_cast<int64_t>(value.text().num_chars());
  if (value.is_undefined()) return 0;
  if (const auto* list = value.as<List>()) return static_cast<int64_t>(list->items.size());
  if (const auto* dict = value.as<Dict>()) return static_cast<int64_t>(dict->entries.size());
  if (const auto* view = value.as<DictView>()) return static_cast<int64_t>(view->dict->entries.size());
  if (const auto* range = value.as<Range>()) return range->size;
  return -1;
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return value.boolean();
    case Kind::integer:
      return value.integer() != 0;
    case Kind::real:
      return value.number() != 0.0;
    case Kind::text:
      return !value.text().bytes().empty();
    case Kind::object:
      break;
  }
  return length_of(value) != 0;  // values without a length are true
}

}  // namespace quire::chat

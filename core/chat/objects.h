// Template values other than numbers and texts. A machine owns them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/chat/value.h"

namespace quire::chat {

class Machine;

enum class ObjectType : uint8_t { list, dict, dict_view, range, iterator, name_space, callable };

class Object {
 public:
  explicit Object(ObjectType type) : type_(type) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  ObjectType type() const { return type_; }

 private:
  ObjectType type_;
};

template <typename T>
T* Value::as() const {
  return kind_ == Kind::object && object_->type() == T::kType ? static_cast<T*>(object_) : nullptr;
}

// A list or a tuple. Immutable.
struct List final : Object {
  static constexpr ObjectType kType = ObjectType::list;
  List(std::vector<Value> the_items, bool tuple)
      : Object(kType), items(std::move(the_items)), is_tuple(tuple) {}
  std::vector<Value> items;
  bool is_tuple;
};

// A dict; entries are in insertion order.
struct Dict final : Object {
  static constexpr ObjectType kType = ObjectType::dict;
  struct Entry {
    Value key;
    Value value;
  };

  Dict() : Object(kType) {}
  // Returns the value of a key, or null if there is none. Fails if `key` cannot be a key.
  const Value* find(Machine& machine, const Value& key) const;
  const Value* find(Machine& machine, std::string_view key) const;
  // Sets a value. An existing key keeps its position and its first spelling.
  void set(Machine& machine, const Value& key, Value value);

  std::vector<Entry> entries;

 private:
  size_t index_of(Machine& machine, const Value& key, size_t hash) const;
  std::unordered_multimap<size_t, size_t> places_;  // by hash; only used for large dicts
};

// The result of keys(), values() or items().
struct DictView final : Object {
  static constexpr ObjectType kType = ObjectType::dict_view;
  enum class Part : uint8_t { keys, values, items };
  DictView(const Dict& the_dict, Part the_part, bool content)
      : Object(kType), dict(&the_dict), part(the_part), from_content(content) {}
  const Dict* dict;
  Part part;
  bool from_content;
};

struct Range final : Object {
  static constexpr ObjectType kType = ObjectType::range;
  Range(int64_t the_start, int64_t the_step, int64_t the_size)
      : Object(kType), start(the_start), step(the_step), size(the_size) {}
  int64_t at(int64_t idx) const { return start + idx * step; }
  int64_t start;
  int64_t step;
  int64_t size;
};

// A source of values, one by one and only once, like a Python generator.
struct Iterator : Object {
  static constexpr ObjectType kType = ObjectType::iterator;
  Iterator() : Object(kType) {}
  // Sets `out` to the next value; false at the end.
  virtual bool next(Machine& machine, Value& out) = 0;
};

// A Jinja namespace: the only object that a template can change.
struct Namespace final : Object {
  static constexpr ObjectType kType = ObjectType::name_space;
  Namespace() : Object(kType) {}
  Dict members;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

using Builtin = Value (*)(Machine& machine, Arguments& arguments);

struct Callable : Object {
  static constexpr ObjectType kType = ObjectType::callable;
  Callable() : Object(kType) {}
  virtual Value call(Machine& machine, Arguments& arguments) = 0;
  // Returns an attribute; undefined if there is none. Few callables have any.
  virtual Value attribute(Machine& machine, std::string_view name);
};

// A builtin function. If it is bound to a value, that value becomes the first argument.
struct Function final : Callable {
  explicit Function(Builtin the_builtin) : builtin(the_builtin) {}
  Function(Builtin the_builtin, Value the_self)
      : builtin(the_builtin), self(std::move(the_self)), bound(true) {}
  Value call(Machine& machine, Arguments& arguments) override;
  Builtin builtin;
  Value self;
  bool bound = false;
};

// Return the items of an iterable value; fail for other values.
Iterator& iterate(Machine& machine, const Value& value);
std::vector<Value> list_of(Machine& machine, const Value& value);
bool is_iterable(const Value& value);
// Returns the number of items; -1 if the value has no length.
int64_t length_of(const Value& value);
bool is_true(const Value& value);

}  // namespace quire::chat

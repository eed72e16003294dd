// The values of a chat template. Numbers and booleans record, like texts, whether they came as content: a
// digit of a message must not become part of a special token either.
#pragma once

#include <cstdint>

#include "core/chat/text.h"

namespace quire::chat {

class Object;
struct List;
struct Dict;

enum class Kind : uint8_t { undefined, none, boolean, integer, real, text, object };

// The reason why a value is undefined, for error messages.
enum class Absence : uint8_t { variable, attribute, item, parameter, forbidden };

class Value {
 public:
  Value() = default;  // undefined
  explicit Value(bool value) : kind_(Kind::boolean), boolean_(value) {}
  explicit Value(int64_t value) : kind_(Kind::integer), integer_(value) {}
  explicit Value(double value) : kind_(Kind::real), real_(value) {}
  explicit Value(TextRef value) : kind_(Kind::text), text_(std::move(value)) {}
  // Borrowed from the machine that made it.
  explicit Value(Object* value) : kind_(Kind::object), object_(value) {}

  static Value none() {
    Value value;
    value.kind_ = Kind::none;
    return value;
  }
  static Value absent(Absence why, TextRef name) {
    Value value;
    value.absence_ = why;
    value.text_ = std::move(name);
    return value;
  }
  Value as_content(bool from_content = true) const {
    Value value = *this;
    value.from_content_ = from_content;
    return value;
  }

  Kind kind() const { return kind_; }
  bool is_undefined() const { return kind_ == Kind::undefined; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is_boolean() const { return kind_ == Kind::boolean; }
  // As in Python, booleans are integers.
  bool is_integer() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  bool is_real() const { return kind_ == Kind::real; }
  bool is_number() const { return is_integer() || is_real(); }
  bool is_text() const { return kind_ == Kind::text; }
  bool is_content() const { return from_content_; }

  // Each is valid only for a value of that kind.
  bool boolean() const { return boolean_; }
  int64_t integer() const { return kind_ == Kind::boolean ? int64_t{boolean_} : integer_; }
  double number() const { return kind_ == Kind::real ? real_ : static_cast<double>(integer()); }
  const Text& text() const { return *text_; }
  const TextRef& text_ref() const { return text_; }
  Absence absence() const { return absence_; }
  Object* object() const { return kind_ == Kind::object ? object_ : nullptr; }

  // Returns the object if it has that type, otherwise null.
  template <typename T>
  T* as() const;

 private:
  Kind kind_ = Kind::undefined;
  Absence absence_ = Absence::variable;
  bool from_content_ = false;
  union {
    bool boolean_;
    int64_t integer_ = 0;
    double real_;
    Object* object_;
  };
  TextRef text_;  // the text; for an undefined value its name, or null
};

}  // namespace quire::chat

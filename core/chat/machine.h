// Resource limits and memory of one rendering. Every step, byte and level of nesting is counted against a
// limit, so that every template ends. One machine serves one rendering on one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "core/chat/limits.h"
#include "core/chat/objects.h"
#include "core/chat/template_error.h"
#include "core/chat/value.h"

namespace quire::chat {

class Machine {
 public:
  // `input_bytes`: the size of the input, for limits that grow with it.
  Machine(const TemplateLimits& limits, size_t input_bytes);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void step(uint64_t num_steps = 1) {
    steps_left_ -= static_cast<int64_t>(num_steps);
    if (steps_left_ < 0) fail_limit("steps");
  }
  // Counts work that grows with a text or a list: 64 bytes or items make one step.
  void step_bytes(size_t num_bytes) { step(num_bytes / 64); }
  void take_bytes(size_t num_bytes);

  // Makes a value that lives as long as the machine.
  template <typename T, typename... Args>
  T* make(Args&&... args) {
    take_bytes(sizeof(T) + sizeof(void*));
    auto object = std::make_unique<T>(std::forward<Args>(args)...);
    T* raw = object.get();
    objects_.push_back(std::move(object));
    return raw;
  }
  List* make_list(std::vector<Value> items, bool is_tuple = false);
  Value text(TextBuilder& builder, bool is_markup = false);
  Value text(std::string_view bytes, bool from_template = true);
  // Refuses a text that would exceed the limit, before it is made.
  void check_text_bytes(uint64_t num_bytes) const;
  void check_output_bytes(uint64_t num_bytes) const;

  // Sets the position in the template, for messages.
  void set_position(const Position& position) { position_ = position; }
  const Position& position() const { return position_; }
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw TemplateError(TemplateFault::failed, position_, fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_limit(std::string_view name) const;
  // Fails because an operation does not accept an undefined value.
  [[noreturn]] void fail_undefined(const Value& value) const;

  // Guard that counts one level of nesting of statements, expressions, calls or values during its lifetime.
  class Level {
   public:
    explicit Level(Machine& machine) : machine_(machine) {
      if (++machine.depth_ > machine.limits_.max_depth) machine.fail_depth();
    }
    ~Level() { --machine_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Machine& machine_;
  };

  const TemplateLimits& limits() const { return limits_; }
  uint64_t steps_used() const {
    return max_steps_ - static_cast<uint64_t>(steps_left_ < 0 ? 0 : steps_left_);
  }
  const LocalTime& now() const { return now_; }
  void set_now(const LocalTime& now) { now_ = now; }

 private:
  [[noreturn]] void fail_depth();

  TemplateLimits limits_;
  uint64_t max_steps_;
  int64_t steps_left_;
  uint64_t max_text_bytes_;
  uint64_t bytes_left_;
  uint32_t depth_ = 0;
  Position position_;
  LocalTime now_;
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace quire::chat

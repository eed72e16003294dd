// The object of a quire_chat_template.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "capi/src/handle.h"
#include "core/base/mutex.h"
#include "core/chat/template_set.h"

namespace quire::capi {

// What a rendering takes with it when it begins.
struct ChatSettings {
  std::string name;  // empty: by the input
  std::map<std::string, std::string> special_tokens;
  std::optional<chat::LocalTime> now;  // absent: that of the clock
};

struct ChatTemplateObject final : Object {
  ChatTemplateObject(std::shared_ptr<const chat::TemplateSet> the_templates, ChatSettings the_settings)
      : templates(std::move(the_templates)), settings_(std::move(the_settings)) {}

  ChatSettings settings() const {
    const MutexLock lock(mutex_);
    return settings_;
  }
  template <typename Change>
  void change(Change&& apply) {
    const MutexLock lock(mutex_);
    apply(settings_);
  }

  const std::shared_ptr<const chat::TemplateSet> templates;

 private:
  mutable Mutex mutex_;
  ChatSettings settings_ QUIRE_GUARDED_BY(mutex_);
};

template <>
struct HandleTraits<quire_chat_template> {
  using Object = ChatTemplateObject;
  static constexpr HandleType type = HandleType::chat_template;
};

}  // namespace quire::capi

// Object of a quire_chat_template.
#pragma once

#include <memory>
#include <utility>

#include "capi/src/handle.h"
#include "core/base/mutex.h"
#include "core/engine/requests/conversation_renderer.h"

namespace quire::capi {

struct ChatTemplateObject final : Object {
  explicit ChatTemplateObject(ChatTemplates chat)
      : templates(std::move(chat.templates)), settings_(std::move(chat.settings)) {}

  RenderSettings settings() const {
    const MutexLock lock(mutex_);
    return settings_;
  }
  ChatTemplates share() const { return {templates, settings()}; }
  template <typename Change>
  void change(Change&& apply) {
    const MutexLock lock(mutex_);
    apply(settings_);
  }

  const std::shared_ptr<const chat::TemplateSet> templates;

 private:
  mutable Mutex mutex_;
  RenderSettings settings_ QUIRE_GUARDED_BY(mutex_);
};

template <>
struct HandleTraits<quire_chat_template> {
  using Object = ChatTemplateObject;
  static constexpr HandleType type = HandleType::chat_template;
};

}  // namespace quire::capi

// The object of a quire_chat_template.
#pragma once

#include <memory>
#include <utility>

#include "capi/src/chat_render.h"
#include "capi/src/handle.h"

namespace quire::capi {

struct ChatTemplateObject final : Object {
  explicit ChatTemplateObject(ChatShare share)
      : templates(std::move(share.templates)), settings_(std::move(share.settings)) {}

  ChatSettings settings() const {
    const MutexLock lock(mutex_);
    return settings_;
  }
  ChatShare share() const { return {templates, settings()}; }
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

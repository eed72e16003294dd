// Object of a quire_queue.
#pragma once

#include "capi/src/request_object.h"

namespace quire::capi {

struct QueueObject final : Object {
  explicit QueueObject(const std::shared_ptr<RuntimeShare>& runtime)
      : share{runtime, std::make_shared<EventQueue>(runtime->runtime()->clock())},
        log(std::make_shared<LogFollower>(share.events)),
        counted(runtime->census(), HandleType::queue) {}
  void close() noexcept override { share.events->close(); }

  const QueueShare share;
  const std::shared_ptr<LogFollower> log;  // silent until a level is set
  const CensusEntry counted;
};

template <>
struct HandleTraits<quire_queue> {
  using Object = QueueObject;
  static constexpr HandleType type = HandleType::queue;
};

}  // namespace quire::capi

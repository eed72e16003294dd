// Builds the engine's request from a request of the host.
#pragma once

#include "core/engine/jobs/job_request.h"
#include "core/engine/model/model_loader.h"
#include "core/engine/requests/request_spec.h"
#include "core/engine/residency/runtime.h"

namespace quire {

// Tokenizes the prompts, and creates the parser, constraint and healing that the request needs. Runs on the
// caller's thread. `runtime`: that of the cache that the request is for. Throws an error that names the
// invalid field; Engine::submit checks the rest.
JobRequest build_request(RequestSpec spec, const LoadedModel& model, const Runtime& runtime);

}  // namespace quire

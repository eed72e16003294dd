// The embedded model on the CPU with an engine on it, without the C boundary.
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "core/engine/engine.h"
#include "core/engine/model/device_registry.h"
#include "core/engine/model/model_loader.h"
#include "core/engine/requests/request_builder.h"

namespace quire::testing {

std::string embedded_model_path();

// Runtime, devices and embedded model, loaded once for a program.
struct LoadedWorld {
  LoadedWorld();

  DeviceRegistry devices;
  std::shared_ptr<Runtime> runtime;
  LoadedModel model;
};
LoadedWorld& loaded_world();

// An engine with pages of 16 tokens and steps of up to 64 tokens.
std::shared_ptr<Engine> make_engine(const LoadedWorld& world);

struct Answer {
  TokenIds tokens;
  std::string text;  // raw, also if a reader splits it into parts
  JobResult result;
};

class RequestTest : public ::testing::Test {
 protected:
  const Tokenizer& tokenizer() const { return model.model->tokenizer(); }
  JobRequest build(const RequestSpec& spec) const { return build_request(spec, model, *world.runtime); }
  // Returns the text of the prompt that the request computes, special tokens included.
  std::string prompt_text(const RequestSpec& spec) const {
    return tokenizer().decode(build(spec).prompt, false);
  }

  LoadedWorld& world = loaded_world();
  const LoadedModel& model = world.model;
};

class EngineRequestTest : public RequestTest {
 protected:
  // Submits the request and reads all its events.
  Answer run(const RequestSpec& spec) const;

  std::shared_ptr<Engine> engine = make_engine(world);
};

PromptPart text_part(std::string text);
PromptPart token_part(TokenIds tokens);

// A request with a text as its prompt that draws the most likely token each time.
RequestSpec greedy(const std::string& text, int32_t max_new_tokens);

}  // namespace quire::testing

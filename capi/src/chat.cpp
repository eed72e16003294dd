#include <quire/chat.h>
#include <quire/model.h>
#include <quire/request.h>

#include "capi/src/arguments.h"
#include "capi/src/chat_object.h"
#include "capi/src/guard.h"
#include "capi/src/model_object.h"
#include "capi/src/request_object.h"
#include "core/base/file_system.h"
#include "core/base/json.h"
#include "core/base/utf8.h"
#include "core/chat/segments.h"
#include "core/chat/time_text.h"
#include "core/engine/requests/prompt_builder.h"
#include "core/models/model_source.h"

using namespace quire::capi;
using quire::Error;
using quire::ErrorCode;
using quire::chat::RenderedChat;
using quire::chat::TemplateSet;

namespace {

const char* token_name(int32_t kind) {
  switch (range_argument(kind, QUIRE_TOKEN_BOS, QUIRE_TOKEN_UNK, "kind")) {
    case QUIRE_TOKEN_BOS:
      return "bos_token";
    case QUIRE_TOKEN_EOS:
      return "eos_token";
    case QUIRE_TOKEN_PAD:
      return "pad_token";
    default:
      return "unk_token";
  }
}

RenderedChat render(const ChatTemplateObject& chat, std::string_view text) {
  return quire::with_parameter("text", [&] { return quire::render_chat(chat.share(), text); });
}

// Returns the sizes of the parts, alternately from the template and from the input, beginning with the
// template.
std::vector<int64_t> segment_sizes(const RenderedChat& rendered) {
  std::vector<int64_t> sizes;
  size_t begin = 0;
  for (const quire::chat::OriginRun& run : rendered.runs) {
    if (sizes.empty() && !run.from_template) sizes.push_back(0);
    sizes.push_back(static_cast<int64_t>(run.end - begin));
    begin = run.end;
  }
  return sizes;
}

// Returns the changes of the conversation as a JSON list.
std::string changes_text(const RenderedChat& rendered) {
  std::string text = "[";
  for (const quire::chat::HistoryChange& change : rendered.changes) {
    text += text.size() > 1 ? ", " : "";
    text += R"({"field": )" + quire::json_quoted(change.field) + R"(, "change": )" +
            quire::json_quoted(quire::chat::adaptation_name(change.adaptation)) + "}";
  }
  return text + "]";
}

}  // namespace

quire_chat_template* quire_chat_template_create(const char* text, size_t text_len, quire_error** error) {
  return guard(error, static_cast<quire_chat_template*>(nullptr), [&] {
    return make_handle<quire_chat_template>(quire::with_own_settings(quire::with_parameter(
        "text", [&] { return TemplateSet::of_source(text_argument(text, text_len)); })));
  });
}

quire_chat_template* quire_chat_template_open(const char* text, size_t text_len, quire_error** error) {
  return guard(error, static_cast<quire_chat_template*>(nullptr), [&] {
    const std::string path(c_text_argument(text, text_len, "text"));
    const quire::FileSystem& files = quire::posix_file_system();
    if (files.is_file(path)) {
      const auto source =
          quire::with_parameter("text", [&] { return quire::open_model_source(files, path); });
      return make_handle<quire_chat_template>(
          quire::with_own_settings(TemplateSet::load({source->tokenizer_config(), {}, {}}, path)));
    }
    if (!files.is_directory(path)) {
      throw Error(ErrorCode::not_found, "{}: not a model directory", quire::printable(path, 4096)).at("text");
    }
    return make_handle<quire_chat_template>(
        quire::with_own_settings(TemplateSet::load(quire::chat::read_chat_files(files, path), path)));
  });
}

int32_t quire_chat_template_choose(quire_chat_template* chat, const char* text, size_t text_len,
                                   quire_error** error) {
  return guard(error, 0, [&] {
    const Pinned pinned(chat, "chat");
    const std::string name(text_argument(text, text_len));
    if (!name.empty()) quire::with_parameter("text", [&] { pinned->templates->find(name); });
    pinned->change([&](quire::RenderSettings& settings) { settings.name = name; });
    return 1;
  });
}

int32_t quire_chat_template_set_token(quire_chat_template* chat, int32_t kind, const char* text,
                                      size_t text_len, quire_error** error) {
  return guard(error, 0, [&] {
    const Pinned pinned(chat, "chat");
    const std::string token(text_argument(text, text_len));
    quire::with_parameter("text", [&] { quire::require_utf8(token, "text"); });
    const char* name = token_name(kind);
    pinned->change([&](quire::RenderSettings& settings) { settings.special_tokens[name] = token; });
    return 1;
  });
}

int32_t quire_chat_template_set_now(quire_chat_template* chat, const char* text, size_t text_len,
                                    quire_error** error) {
  return guard(error, 0, [&] {
    const Pinned pinned(chat, "chat");
    const quire::chat::LocalTime now = quire::with_parameter(
        "text", [&] { return quire::chat::parse_time(text_argument(text, text_len), "text"); });
    pinned->change([&](quire::RenderSettings& settings) { settings.now = now; });
    return 1;
  });
}

int32_t quire_chat_template_set_adapts_history(quire_chat_template* chat, int32_t adapts,
                                               quire_error** error) {
  return guard(error, 0, [&] {
    const Pinned pinned(chat, "chat");
    const bool is_on = flag_argument(adapts, "adapts");
    pinned->change([&](quire::RenderSettings& settings) { settings.adapts_history = is_on; });
    return 1;
  });
}

int64_t quire_chat_template_render(quire_chat_template* chat, const char* text, size_t text_len,
                                   char* out_text, size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(chat, "chat");
    const OutArgument<char> out(out_text, out_capacity, "out_text");
    const RenderedChat rendered = render(*pinned, text_argument(text, text_len));
    return out.write({rendered.text.data(), rendered.text.size()});
  });
}

int64_t quire_chat_template_changes(quire_chat_template* chat, const char* text, size_t text_len,
                                    char* out_text, size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(chat, "chat");
    const OutArgument<char> out(out_text, out_capacity, "out_text");
    const std::string changes = changes_text(render(*pinned, text_argument(text, text_len)));
    return out.write({changes.data(), changes.size()});
  });
}

int64_t quire_chat_template_segments(quire_chat_template* chat, const char* text, size_t text_len,
                                     int64_t* out_sizes, size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(chat, "chat");
    const OutArgument<int64_t> out(out_sizes, out_capacity, "out_sizes");
    return out.write(segment_sizes(render(*pinned, text_argument(text, text_len))));
  });
}

int64_t quire_chat_template_tokens(quire_chat_template* chat, quire_model* model, const char* text,
                                   size_t text_len, int32_t* out_tokens, size_t out_capacity,
                                   quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(chat, "chat");
    const Pinned pinned_model(model, "model");
    const OutArgument<int32_t> out(out_tokens, out_capacity, "out_tokens");
    const RenderedChat rendered = render(*pinned, text_argument(text, text_len));
    return out.write(quire::chat::encode_rendered(pinned_model->share->model->tokenizer(), rendered));
  });
}

int64_t quire_chat_template_hash(quire_chat_template* chat, char* out_text, size_t out_capacity,
                                 quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(chat, "chat");
    const std::string name = pinned->settings().name;
    return write_text(pinned->templates->choose(name, quire::JsonValue()).hash(), out_text, out_capacity);
  });
}

int32_t quire_chat_template_free(quire_chat_template* handle, quire_error** error) {
  return free_handle(handle, error);
}

int64_t quire_model_render_chat(quire_model* model, quire_job_request* request, char* out_text,
                                size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(model, "model");
    const OutArgument<char> out(out_text, out_capacity, "out_text");
    const RenderedChat rendered = render_conversation(Pinned(request, "request")->read(), *pinned->share);
    return out.write({rendered.text.data(), rendered.text.size()});
  });
}

int64_t quire_model_render_chat_changes(quire_model* model, quire_job_request* request, char* out_text,
                                        size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(model, "model");
    const OutArgument<char> out(out_text, out_capacity, "out_text");
    const std::string changes =
        changes_text(render_conversation(Pinned(request, "request")->read(), *pinned->share));
    return out.write({changes.data(), changes.size()});
  });
}

int64_t quire_model_render_chat_tokens(quire_model* model, quire_job_request* request, int32_t* out_tokens,
                                       size_t out_capacity, quire_error** error) {
  return guard(error, int64_t{-1}, [&] {
    const Pinned pinned(model, "model");
    const OutArgument<int32_t> out(out_tokens, out_capacity, "out_tokens");
    return out.write(encode_prompt(Pinned(request, "request")->read(), *pinned->share));
  });
}

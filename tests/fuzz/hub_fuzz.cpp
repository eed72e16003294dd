// Any text as a hub's list of files; after the first NUL a model's name, after the second the index of its
// weights. The result is a HubError of one line, or files that the list has, in folders below their own.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "capi/hub/choose_files.h"
#include "capi/hub/error.h"
#include "capi/hub/model_name.h"
#include "capi/hub/repository.h"

namespace quire::hub {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

// Returns the text up to the next NUL, and removes it with the NUL.
std::string_view take_part(std::string_view& rest) {
  const std::string_view part = rest.substr(0, rest.find('\0'));
  rest.remove_prefix(std::min(part.size() + 1, rest.size()));
  return part;
}

void check_repository(const Repository& repository) {
  require(is_hex(repository.commit, 40));
  for (const RepositoryFile& file : repository.files) {
    require(is_safe_path(file.path) && file.size >= 0);
    require(is_hex(file.blob(), file.sha256.empty() ? 40 : 64));
  }
}

void check_files(const ModelFiles& model, const std::vector<std::string>& names) {
  const auto is_listed = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  require(!model.files.empty() && std::all_of(model.files.begin(), model.files.end(), is_listed));
  require(model.gguf.empty() || is_listed(model.gguf));
  require(model.index.empty() || is_listed(model.index));
}

// Runs one part of the test. It may throw HubError, and the other parts run all the same.
template <class Part>
void attempt(const Part& part) {
  try {
    part();
  } catch (const HubError& error) {
    require(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

void run(std::string_view rest) {
  const std::string_view list = take_part(rest);
  const std::string_view name = take_part(rest);
  std::string choice;
  attempt([&] {
    const ModelName parsed = parse_model_name(name);
    require(looks_like_model_name(name) == (parsed.repository.find('/') != std::string::npos));
    choice = parsed.choice;
  });
  attempt([&] {
    const Repository repository = parse_repository(list, "org/name");
    check_repository(repository);
    const std::vector<std::string> names = repository.names();
    (void)list_choices(names);
    ModelFiles model = choose_model_files(names, choice);
    check_files(model, names);
    follow_index(model, names, rest);
    check_files(model, names);
  });
}

}  // namespace
}  // namespace quire::hub

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t num_bytes) {
  quire::hub::run(std::string_view(reinterpret_cast<const char*>(data), num_bytes));
  return 0;
}

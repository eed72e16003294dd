#include "capi/hub/model_name.h"

#include <algorithm>

#include "capi/hub/error.h"

namespace quire::hub {
namespace {

constexpr size_t kMaxRepositoryBytes = 96;  // the limit of Hugging Face
constexpr size_t kMaxComponentBytes = 200;
constexpr size_t kMaxPathBytes = 1024;
constexpr const char* kMainBranch = "main";
constexpr const char* kForm = "a model's name is ORG/NAME, ORG/NAME:FILE or ORG/NAME@REVISION";

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Checks an owner or the name of a repository. The cache joins both by "--", so they must not have it.
bool is_repository_part(std::string_view part) {
  if (part.empty() || part.find("--") != std::string_view::npos || part.find("..") != std::string_view::npos)
    return false;
  const auto is_edge = [](char c) { return c == '-' || c == '.'; };
  if (is_edge(part.front()) || is_edge(part.back())) return false;
  return std::all_of(part.begin(), part.end(),
                     [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_repository(std::string_view text) {
  if (text.size() > kMaxRepositoryBytes) return false;
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return is_repository_part(text);
  return is_repository_part(text.substr(0, slash)) && is_repository_part(text.substr(slash + 1));
}

bool is_revision(std::string_view text) {
  return is_safe_path(text) && text.find_first_of(" ~^:?*[@") == std::string_view::npos;
}

struct Parts {
  std::string_view repository;
  std::string_view choice;
  std::string_view revision;
  bool has_choice = false;
  bool has_revision = false;
};

Parts split(std::string_view text) {
  Parts parts;
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    parts.has_revision = true;
    parts.revision = text.substr(at + 1);
    text = text.substr(0, at);
  }
  if (const size_t colon = text.find(':'); colon != std::string_view::npos) {
    parts.has_choice = true;
    parts.choice = text.substr(colon + 1);
    text = text.substr(0, colon);
  }
  parts.repository = text;
  return parts;
}

// Returns the text for a message, without control characters.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, kMaxRepositoryBytes * 2));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return out;
}

}  // namespace

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxPathBytes) return false;
  const auto is_bad = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\'; };
  if (std::any_of(path.begin(), path.end(), is_bad)) return false;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view component = path.substr(begin, end - begin);
    if (component.empty() || component == "." || component == ".." || component.size() > kMaxComponentBytes)
      return false;
    begin = end + 1;
  }
  return true;
}

bool is_hex(std::string_view text, size_t num_digits) {
  return text.size() == num_digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string ModelName::text() const {
  return repository + (choice.empty() ? "" : ":" + choice) + (revision == kMainBranch ? "" : "@" + revision);
}

ModelName parse_model_name(std::string_view text) {
  const Parts parts = split(text);
  if (!is_repository(parts.repository))
    throw HubError(Problem::usage, "\"" + shown(parts.repository) + "\": no repository of a hub; " + kForm);
  if (parts.has_choice && !is_safe_path(parts.choice))
    throw HubError(Problem::usage,
                   "\"" + shown(parts.choice) +
                       "\": neither a file nor a quantization; write for example ORG/NAME:Q4_K_M");
  if (parts.has_revision && !is_revision(parts.revision))
    throw HubError(Problem::usage, "\"" + shown(parts.revision) + "\": no branch, tag or commit");
  return {.repository = std::string(parts.repository),
          .choice = std::string(parts.choice),
          .revision = parts.has_revision ? std::string(parts.revision) : kMainBranch};
}

bool looks_like_model_name(std::string_view text) {
  const Parts parts = split(text);
  return parts.repository.find('/') != std::string_view::npos && is_repository(parts.repository);
}

}  // namespace quire::hub

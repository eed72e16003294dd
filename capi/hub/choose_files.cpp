#include "capi/hub/choose_files.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "capi/hub/error.h"
#include "capi/hub/json_depth.h"

namespace quire::hub {
namespace {

using Names = std::vector<std::string>;

constexpr std::string_view kGguf = ".gguf";
constexpr std::string_view kSafetensors = ".safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kUsualQuantization = "Q4_K_M";  // taken among several, as llama.cpp does
constexpr size_t kMaxListed = 12;
constexpr int kMaxIndexDepth = 16;

// Small files that the loader reads if they exist.
constexpr std::string_view kSmallFiles[] = {"config.json",
                                            "params.json",
                                            "generation_config.json",
                                            "tokenizer.json",
                                            "tokenizer_config.json",
                                            "special_tokens_map.json",
                                            "added_tokens.json",
                                            "chat_template.jinja",
                                            "vocab.json",
                                            "merges.txt",
                                            kIndexFile};

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// The part of a split model: "STEM-00002-of-00005.gguf".
struct SplitName {
  std::string stem;
  int number = 0;
  int count = 0;
};

std::optional<SplitName> split_name(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  constexpr size_t kDigits = 5;
  const size_t tail = 1 + kDigits + kOf.size() + kDigits + kGguf.size();
  if (name.size() <= tail) return std::nullopt;
  const size_t first = name.size() - tail;
  if (name[first] != '-' || name.substr(first + 1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  SplitName split;
  split.stem = name.substr(0, first);
  const auto read = [&](size_t at, int& value) {
    const char* const end = name.data() + at + kDigits;
    return std::from_chars(name.data() + at, end, value).ptr == end && value > 0;
  };
  if (!read(first + 1, split.number) || !read(first + 1 + kDigits + kOf.size(), split.count))
    return std::nullopt;
  return split;
}

// One model in one GGUF file or in several.
struct GgufModel {
  std::string stem;  // the path without numbers of parts and without ".gguf"
  int count = 1;
  std::map<int, std::string> parts;
};

// Returns whether a GGUF file is a part of another thing than a language model.
bool is_companion(std::string_view name) {
  const std::string file = lower(name.substr(name.find_last_of('/') + 1));
  return file.find("mmproj") != std::string::npos || file.starts_with("imatrix");
}

std::vector<GgufModel> gguf_models(const Names& names) {
  std::map<std::pair<std::string, int>, GgufModel> models;
  for (const std::string& name : names) {
    if (name.size() <= kGguf.size() || !lower(name).ends_with(kGguf) || is_companion(name)) continue;
    const SplitName split =
        split_name(name).value_or(SplitName{name.substr(0, name.size() - kGguf.size()), 1, 1});
    GgufModel& model = models[{split.stem, split.count}];
    model.stem = split.stem;
    model.count = split.count;
    model.parts.emplace(split.number, name);
  }
  std::vector<GgufModel> out;
  for (auto& [key, model] : models) out.push_back(std::move(model));
  return out;
}

// Returns whether the path without its extension contains the quantization as a word: Q4_K in "x-Q4_K.gguf"
// but not in "x-Q4_K_M.gguf", Q4_XS not in "x-IQ4_XS.gguf".
bool has_word(const std::string& stem, const std::string& word) {
  const std::string text = lower(stem);
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const char before = at == 0 ? '-' : text[at - 1];
    const size_t end = at + word.size();
    const char after = end == text.size() ? '-' : text[end];
    const bool begins = std::isalnum(static_cast<unsigned char>(before)) == 0;
    if (begins && (after == '-' || after == '.' || after == '/')) return true;
  }
  return false;
}

std::vector<GgufModel> with_word(const std::vector<GgufModel>& models, std::string_view word) {
  std::vector<GgufModel> found;
  const std::string wanted = lower(word);
  std::copy_if(models.begin(), models.end(), std::back_inserter(found),
               [&](const GgufModel& model) { return has_word(model.stem, wanted); });
  return found;
}

// Returns the quantization at the end of the stem, such as Q4_K_M or UD-Q4_K_XL; empty if it has none.
std::string quantization_of(const std::string& stem) {
  const std::string file = stem.substr(stem.find_last_of('/') + 1);
  const size_t begin = file.find_last_of("-.");
  const std::string word = file.substr(begin == std::string::npos ? 0 : begin + 1);
  const std::string small = lower(word);
  const bool is_known = small.starts_with("q") || small.starts_with("iq") || small.starts_with("tq") ||
                        small == "f16" || small == "f32" || small == "bf16" ||
                        small.find("fp4") != small.npos;
  const bool has_digit = std::any_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_known && has_digit ? word : std::string();
}

// Returns the shortest choice that leads to this model only.
std::string choice_of(const std::vector<GgufModel>& models, const GgufModel& model) {
  const std::string word = quantization_of(model.stem);
  if (!word.empty() && with_word(models, word).size() == 1) return word;
  return model.parts.begin()->second;
}

std::string listed(const Names& choices) {
  std::string text;
  for (size_t i = 0; i < choices.size() && i < kMaxListed; ++i) text += (i == 0 ? "" : ", ") + choices[i];
  if (choices.size() > kMaxListed) text += " and " + std::to_string(choices.size() - kMaxListed) + " others";
  return text;
}

std::string listed(const std::vector<GgufModel>& all, const std::vector<GgufModel>& models) {
  Names choices;
  for (size_t i = 0; i < models.size(); ++i)
    choices.push_back(i < kMaxListed ? choice_of(all, models[i]) : std::string());
  return listed(choices);
}

ModelFiles files_of(const GgufModel& model) {
  if (static_cast<int>(model.parts.size()) != model.count || model.parts.begin()->first != 1 ||
      model.parts.rbegin()->first != model.count)
    throw HubError(Problem::failed, model.stem + ": " + std::to_string(model.parts.size()) + " of its " +
                                        std::to_string(model.count) +
                                        " files are there; the model is incomplete");
  ModelFiles out;
  out.gguf = model.parts.begin()->second;
  for (const auto& [number, name] : model.parts) out.files.push_back(name);
  return out;
}

// Returns the model that the choice names, if it is a GGUF file or one of its parts.
std::optional<GgufModel> with_file(const std::vector<GgufModel>& models, std::string_view choice) {
  for (const GgufModel& model : models) {
    for (const auto& [number, name] : model.parts) {
      if (name == choice) return model;
    }
  }
  return std::nullopt;
}

ModelFiles choose_gguf(const std::vector<GgufModel>& models, std::string_view choice) {
  if (const auto file = with_file(models, choice)) return files_of(*file);
  std::vector<GgufModel> found = choice.empty() ? models : with_word(models, choice);
  if (found.empty())
    throw HubError(Problem::failed,
                   "no file matches \"" + std::string(choice) + "\"; there are " + listed(models, models));
  if (choice.empty() && found.size() > 1) {
    const std::vector<GgufModel> usual = with_word(found, kUsualQuantization);
    if (usual.size() == 1) found = usual;
  }
  if (found.size() > 1)
    throw HubError(Problem::failed,
                   "several models match; write ORG/NAME:CHOICE with one of " + listed(models, found));
  return files_of(found.front());
}

bool is_weight_file(std::string_view name) {
  return name.size() > kSafetensors.size() && name.ends_with(kSafetensors);
}

bool is_tokenizer_model(std::string_view name) {
  return name.ends_with(".model") || name.ends_with(".tiktoken") ||
         name.find(".model.v") != std::string_view::npos ||
         (name.starts_with("tekken") && name.ends_with(".json"));
}

// Names of the files of each folder, without the folder. A folder has a slash at its end; "" is the root.
using Folders = std::map<std::string, Names>;

Folders group_by_folder(const Names& names) {
  Folders folders;
  for (const std::string& name : names) {
    const size_t end = name.find_last_of('/') + 1;
    folders[name.substr(0, end)].push_back(name.substr(end));
  }
  return folders;
}

bool is_model_directory(const Names& inner) {
  return (contains(inner, "config.json") || contains(inner, "params.json")) &&
         std::any_of(inner.begin(), inner.end(), is_weight_file);
}

// Returns the weight files by the rule of the loader for a directory without an index: "consolidated" files
// count only if there are no others, and model.safetensors is the whole model.
Names weight_files(const Names& inner) {
  Names own;
  Names others;
  for (const std::string& name : inner) {
    if (!is_weight_file(name) || name == "adapter_model.safetensors") continue;
    (name.starts_with("consolidated") ? others : own).push_back(name);
  }
  const bool is_mistral =
      contains(inner, "params.json") && !others.empty() && (own.empty() || !contains(inner, "config.json"));
  if (is_mistral || own.empty()) return others;
  if (contains(own, "model.safetensors") && !contains(inner, kIndexFile)) return {"model.safetensors"};
  return own;
}

ModelFiles choose_directory(const Folders& folders, const std::string& folder) {
  const Names& inner = folders.at(folder);
  const Names weight_names = weight_files(inner);
  const std::set<std::string_view> weights(weight_names.begin(), weight_names.end());
  ModelFiles out;
  out.folder = folder;
  for (const std::string& name : inner) {
    const bool is_small =
        std::find(std::begin(kSmallFiles), std::end(kSmallFiles), name) != std::end(kSmallFiles);
    if (is_small || is_tokenizer_model(name) || weights.contains(name)) out.files.push_back(folder + name);
  }
  if (contains(inner, kIndexFile)) out.index = folder + kIndexFile;
  const auto templates = folders.find(folder + "additional_chat_templates/");
  if (templates == folders.end()) return out;
  for (const std::string& name : templates->second) {
    if (name.ends_with(".jinja")) out.files.push_back(templates->first + name);
  }
  return out;
}

// Returns the folders that are model directories.
Names model_directories(const Folders& folders) {
  Names out;
  for (const auto& [folder, inner] : folders) {
    if (is_model_directory(inner)) out.push_back(folder);
  }
  return out;
}

// Returns the folder as a choice, without the slash at its end.
std::string without_slash(const std::string& folder) {
  return folder.empty() ? folder : folder.substr(0, folder.size() - 1);
}

}  // namespace

ModelFiles choose_model_files(const Names& names, std::string_view choice) {
  const Folders folders = group_by_folder(names);
  const Names directories = model_directories(folders);
  const std::string folder = choice.empty() ? "" : std::string(choice) + "/";
  if (contains(directories, folder)) return choose_directory(folders, folder);
  const std::vector<GgufModel> models = gguf_models(names);
  if (!models.empty()) return choose_gguf(models, choice);
  if (directories.empty())
    throw HubError(Problem::failed,
                   "it has no model that Quire reads: neither config.json with *.safetensors nor *.gguf");
  if (!choice.empty() && contains(directories, ""))
    throw HubError(Problem::failed,
                   "no file matches \"" + std::string(choice) +
                       "\"; it has one model, and other precisions may be branches: ORG/NAME@BRANCH");
  Names choices;
  for (const std::string& directory : directories) choices.push_back(without_slash(directory));
  throw HubError(Problem::failed,
                 "several models match; write ORG/NAME:CHOICE with one of " + listed(choices));
}

void follow_index(ModelFiles& model, const Names& names, std::string_view index) {
  if (exceeds_depth(index, kMaxIndexDepth)) return;
  std::set<std::string> wanted;
  try {
    const auto parsed = nlohmann::json::parse(index);
    for (const auto& [tensor, file] : parsed.at("weight_map").items())
      wanted.insert(model.folder + file.get<std::string>());
  } catch (const std::exception&) {
    return;
  }
  const std::set<std::string> known(names.begin(), names.end());
  const auto is_there = [&](const std::string& name) { return is_weight_file(name) && known.contains(name); };
  if (wanted.empty() || !std::all_of(wanted.begin(), wanted.end(), is_there)) return;
  std::erase_if(model.files, [](const std::string& name) { return is_weight_file(name); });
  model.files.insert(model.files.end(), wanted.begin(), wanted.end());
}

Names list_choices(const Names& names) {
  Names choices;
  for (const std::string& folder : model_directories(group_by_folder(names)))
    choices.push_back(without_slash(folder));
  const std::vector<GgufModel> models = gguf_models(names);
  for (const GgufModel& model : models) choices.push_back(choice_of(models, model));
  return choices;
}

}  // namespace quire::hub

#include "core/loader/weight_directory.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <set>

#include "core/base/checked_math.h"
#include "core/base/error.h"
#include "core/base/json.h"

namespace quire {
namespace {

constexpr std::string_view kExtension = ".safetensors";
constexpr std::string_view kWholeFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr JsonLimits kIndexLimits = {.max_bytes = 64U << 20, .max_depth = 16, .python_numbers = true};

using Names = std::vector<std::string>;
using FilesOfTensors = std::map<std::string, std::string, std::less<>>;

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_weight_file(std::string_view name) {
  return name.size() > kExtension.size() && name.ends_with(kExtension);
}

bool is_consolidated(std::string_view name) {
  return name.starts_with("consolidated");
}

// Returns whether the file holds the same tensors under other names, or corrections of them.
bool is_other_checkpoint(std::string_view name) {
  return is_consolidated(name) || name == "adapter_model.safetensors";
}

FilesOfTensors read_index(const FileSystem& file_system, const std::string& path) {
  const JsonValue parsed =
      parse_json(file_system.read_text(path, kIndexLimits.max_bytes), path, kIndexLimits);
  const JsonView map = JsonView(parsed, path).at("weight_map");
  FilesOfTensors files;
  for (const JsonMember& member : map.members()) files.emplace(member.key, map.at(member.key).as_string());
  return files;
}

// A file name "STEM-00001-of-00002.safetensors".
struct ShardName {
  std::string set;  // the name without the number of the shard
  int32_t num_shards = 0;
};

std::optional<ShardName> shard_name(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  constexpr size_t kDigits = 5;
  const size_t tail = kDigits + kOf.size() + kDigits + kExtension.size();
  if (name.size() <= tail) return std::nullopt;
  const size_t first = name.size() - tail;
  if (name[first - 1] != '-' || name.substr(first + kDigits, kOf.size()) != kOf) return std::nullopt;
  int32_t number = 0;
  ShardName shard;
  const auto read = [&](size_t at, int32_t& value) {
    const char* const end = name.data() + at + kDigits;
    return std::from_chars(name.data() + at, end, value).ptr == end && value > 0;
  };
  if (!read(first, number) || !read(first + kDigits + kOf.size(), shard.num_shards)) return std::nullopt;
  shard.set = std::string(name.substr(0, first)) + std::string(name.substr(first + kDigits));
  return shard;
}

// Leaves out shards of sets that lack some, if another set is complete.
Names without_stale_shards(const Names& names) {
  std::map<std::string, int32_t> missing;  // by set
  for (const std::string& name : names) {
    if (const auto shard = shard_name(name))
      --missing.try_emplace(shard->set, shard->num_shards).first->second;
  }
  const bool has_complete_set =
      std::any_of(missing.begin(), missing.end(), [](const auto& set) { return set.second == 0; });
  if (!has_complete_set) return names;
  Names kept;
  std::copy_if(names.begin(), names.end(), std::back_inserter(kept), [&](const std::string& name) {
    const auto shard = shard_name(name);
    return !shard || missing[shard->set] == 0;
  });
  return kept;
}

// Returns the weight files of a directory without an index.
Names files_without_index(const Names& weight_files) {
  if (contains(weight_files, kWholeFile)) return {std::string(kWholeFile)};
  Names own;
  std::copy_if(weight_files.begin(), weight_files.end(), std::back_inserter(own),
               [](const std::string& name) { return !is_other_checkpoint(name); });
  return own.empty() ? weight_files : without_stale_shards(own);
}

std::string name_of(const File& file) {
  return file.path().substr(file.path().find_last_of('/') + 1);
}

}  // namespace

bool is_mistral_layout(const std::vector<std::string>& names) {
  if (!contains(names, "params.json")) return false;
  bool has_own = false;
  bool has_others = false;
  for (const std::string& name : names) {
    if (!is_weight_file(name)) continue;
    has_own = has_own || is_consolidated(name);
    has_others = has_others || !is_other_checkpoint(name);
  }
  return has_own && (!has_others || !contains(names, "config.json"));
}

WeightDirectory WeightDirectory::open(const FileSystem& file_system, const std::string& path) {
  WeightDirectory directory;
  directory.path_ = path;
  const Names names = file_system.list(path);
  Names weight_files;
  std::copy_if(names.begin(), names.end(), std::back_inserter(weight_files), is_weight_file);
  if (is_mistral_layout(names))
    std::erase_if(weight_files, [](const std::string& name) { return !is_consolidated(name); });
  if (weight_files.empty()) throw Error(ErrorCode::not_found, "{}: holds no *.safetensors file", path);
  FilesOfTensors index;
  std::set<std::string> chosen;
  if (contains(names, kIndexFile)) {
    index = read_index(file_system, fmt::format("{}/{}", path, kIndexFile));
    for (const auto& [tensor, file] : index) chosen.insert(file);
    for (const std::string& file : chosen) {
      if (contains(weight_files, file)) continue;
      directory.missing_files_ += (directory.missing_files_.empty() ? "" : ", ") + printable(file);
    }
  }
  if (chosen.empty() || !directory.missing_files_.empty()) {
    const Names others = files_without_index(weight_files);
    chosen = {others.begin(), others.end()};
    index.clear();
  }
  for (const std::string& name : chosen) directory.open_file(file_system, name);
  directory.finish(index);
  return directory;
}

WeightDirectory WeightDirectory::of_tensors(std::string path, std::vector<std::shared_ptr<const File>> files,
                                            std::vector<PlacedTensor> tensors) {
  WeightDirectory directory;
  directory.path_ = std::move(path);
  directory.others_ = std::move(files);
  directory.placed_ = std::move(tensors);
  for (const PlacedTensor& placed : directory.placed_)
    directory.entries_.push_back({&placed.tensor, directory.others_[placed.file].get()});
  directory.finish({});
  return directory;
}

void WeightDirectory::finish(const FilesOfTensors& files_of) {
  choose_copies(files_of);
  for (const Entry& entry : entries_)
    total_bytes_ = checked_add(total_bytes_, entry.tensor->size_bytes, path_);
}

void WeightDirectory::open_file(const FileSystem& file_system, const std::string& name) {
  safetensors_.push_back(
      std::make_unique<SafetensorsFile>(file_system.open(fmt::format("{}/{}", path_, name))));
  for (const TensorInfo& tensor : safetensors_.back()->tensors())
    entries_.push_back({&tensor, &safetensors_.back()->file()});
}

void WeightDirectory::choose_copies(const FilesOfTensors& files_of) {
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.tensor->name < b.tensor->name; });
  const auto is_chosen = [&](const Entry& entry) {
    const auto file = files_of.find(entry.tensor->name);
    return file != files_of.end() && file->second == name_of(*entry.file);
  };
  std::vector<Entry> kept;
  for (const Entry& entry : entries_) {
    if (kept.empty() || kept.back().tensor->name != entry.tensor->name) {
      kept.push_back(entry);
    } else if (is_chosen(entry)) {
      kept.back() = entry;
    } else if (!is_chosen(kept.back())) {
      throw Error(ErrorCode::format, "{}: tensor \"{}\" is also in {}", kept.back().file->path(),
                  printable(entry.tensor->name), entry.file->path());
    }
  }
  entries_ = std::move(kept);
}

const WeightDirectory::Entry* WeightDirectory::find(std::string_view name) const {
  const auto it =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const Entry& entry, std::string_view key) { return entry.tensor->name < key; });
  return it != entries_.end() && it->tensor->name == name ? &*it : nullptr;
}

const WeightDirectory::Entry& WeightDirectory::at(std::string_view name) const {
  const Entry* entry = find(name);
  if (entry) return *entry;
  throw Error(ErrorCode::format, "{}: no file holds the tensor \"{}\"{}", path_, printable(name),
              missing_files_.empty()
                  ? ""
                  : fmt::format("; {} names files that are not there: {}", kIndexFile, missing_files_));
}

}  // namespace quire

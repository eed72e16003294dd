#include "capi/hub/pull.h"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <set>
#include <sys/resource.h>
#include <thread>

#include "capi/hub/download.h"
#include "capi/hub/error.h"
#include "capi/hub/files.h"

namespace quire::hub {
namespace {

constexpr size_t kMaxModelFiles = 4096;
constexpr size_t kMaxIndexBytes = 64U << 20;

// Each file of a download has three descriptors, and a large model has hundreds of files.
void allow_many_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string size_text(int64_t bytes) {
  constexpr int64_t kMegabyte = 1000000;
  return std::to_string((bytes + kMegabyte - 1) / kMegabyte) + " MB";
}

// One call of pull_model.
class Pull {
 public:
  Pull(const HubSettings& settings, const ModelName& name, const PullOptions& options,
       const PullObserver& observer, const std::atomic<bool>& stop)
      : settings_(settings),
        name_(name),
        options_(options),
        observer_(observer),
        stop_(stop),
        folders_(folders_of(settings.cache, name.repository)) {}

  PulledModel run() {
    repository_ = HubClient(settings_, stop_).list(name_);
    const std::vector<std::string> names = repository_.names();
    ModelFiles model = choose(names);
    if (model.files.size() > kMaxModelFiles)
      throw HubError(Problem::failed,
                     name_.text() + ": it has more than " + std::to_string(kMaxModelFiles) + " files");
    make_folders(folders_.root + "/blobs");
    make_folders(folders_.locks);
    if (!model.index.empty()) {
      bring({model.index});
      follow_index(model, names,
                   read_small_file(folders_.blob(file_of(model.index).blob()), kMaxIndexBytes).value_or(""));
    }
    bring(model.files);
    link(model.files);
    return result(model);
  }

 private:
  ModelFiles choose(const std::vector<std::string>& names) {
    for (const RepositoryFile& file : repository_.files) files_.emplace(file.path, &file);
    try {
      return choose_model_files(names, name_.choice);
    } catch (const HubError& error) {
      throw HubError(error.problem(), name_.text() + ": " + error.what());
    }
  }

  const RepositoryFile& file_of(const std::string& path) const { return *files_.at(path); }

  // Returns whether the cache has the content. A file of another size is what a failure has left.
  bool has_content(const RepositoryFile& file) const {
    return regular_file_size(folders_.blob(file.blob())) == file.size;
  }

  // Takes the lock that huggingface_hub takes for the same file.
  OpenFile lock(const RepositoryFile& file) const {
    OpenFile lock(folders_.locks + "/" + file.blob() + ".lock", O_RDWR | O_CREAT);
    for (bool is_noted = false; !lock.try_lock(); is_noted = true) {
      if (stop_.load()) throw HubError(Problem::interrupted, "interrupted while another download runs");
      if (!is_noted) observer_.show_note("waiting for another download of " + file.path);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return lock;
  }

  // Moves content aside whose digest is wrong, so that it is downloaded again.
  void verify(const RepositoryFile& file) const {
    const std::string blob = folders_.blob(file.blob());
    if (file_digest(file, blob, stop_) == file.blob()) return;
    observer_.show_note(file.path + ": the cached content is damaged; downloading it again");
    remove_file(blob);
  }

  void bring(const std::vector<std::string>& paths) {
    std::map<std::string, const RepositoryFile*>
        wanted;  // by digest, an order in which no two programs block each other
    for (const std::string& path : paths) wanted.emplace(file_of(path).blob(), &file_of(path));
    std::vector<OpenFile> locks;
    Download download(settings_, name_, repository_.commit, stop_);
    int64_t num_files = 0;
    for (const auto& [digest, file] : wanted) {
      if (options_.verify && has_content(*file) && verified_.insert(digest).second) verify(*file);
      if (has_content(*file)) continue;
      locks.push_back(lock(*file));
      if (has_content(*file)) continue;  // brought by the program that had the lock
      download.add(std::make_unique<PartialFile>(*file, folders_.blob(digest)));
      verified_.insert(digest);
      ++num_files;
      num_downloaded_bytes_ += file->size;
    }
    if (num_files == 0) return;
    check_space(download.bytes_to_allocate());
    download.run(observer_.show_progress, observer_.show_file);
    num_downloaded_files_ += num_files;
  }

  void check_space(int64_t needed) const {
    const int64_t free = free_bytes(folders_.root);
    if (needed > free)
      throw HubError(Problem::failed, name_.text() + ": needs " + size_text(needed) + " on the disk of " +
                                          settings_.cache + ", and " + size_text(free) +
                                          " are free; make room, or set HF_HOME to a folder on another disk");
  }

  // Makes the snapshot of complete files visible, and then the revision.
  void link(const std::vector<std::string>& paths) const {
    for (const std::string& path : paths) {
      const std::string link = folders_.snapshot(repository_.commit) + "/" + path;
      make_folders(link.substr(0, link.find_last_of('/')));
      std::string target = "../../";
      for (const char c : path) target += c == '/' ? "../" : "";
      target += "blobs/" + file_of(path).blob();
      std::error_code error;
      if (std::filesystem::read_symlink(link, error) != target) replace_link(target, link);
    }
    if (name_.revision == repository_.commit) return;
    const std::string reference = folders_.reference(name_.revision);
    make_folders(reference.substr(0, reference.find_last_of('/')));
    replace_text(reference, repository_.commit);
  }

  PulledModel result(const ModelFiles& model) const {
    const std::string snapshot = folders_.snapshot(repository_.commit);
    const std::string path = model.path();
    PulledModel pulled{.model = {.name = name_,
                                 .commit = repository_.commit,
                                 .path = path.empty() ? snapshot : snapshot + "/" + path}};
    for (const std::string& file : model.files) pulled.model.bytes += file_of(file).size;
    pulled.num_files = static_cast<int64_t>(model.files.size());
    pulled.num_downloaded_files = num_downloaded_files_;
    pulled.downloaded_bytes = num_downloaded_bytes_;
    return pulled;
  }

  const HubSettings& settings_;
  const ModelName& name_;
  const PullOptions& options_;
  const PullObserver& observer_;
  const std::atomic<bool>& stop_;
  const RepositoryFolders folders_;
  Repository repository_;
  std::map<std::string, const RepositoryFile*> files_;  // by path
  std::set<std::string> verified_;                      // digests
  int64_t num_downloaded_files_ = 0;
  int64_t num_downloaded_bytes_ = 0;
};

}  // namespace

PulledModel pull_model(const HubSettings& settings, const ModelName& name, const PullOptions& options,
                       const PullObserver& observer, const std::atomic<bool>& stop) {
  if (settings.offline) {
    try {
      return {.model = find_cached_model(settings.cache, name)};
    } catch (const HubError& error) {
      throw HubError(error.problem(), std::string("HF_HUB_OFFLINE forbids requests, and ") + error.what());
    }
  }
  allow_many_files();
  return Pull(settings, name, options, observer, stop).run();
}

}  // namespace quire::hub

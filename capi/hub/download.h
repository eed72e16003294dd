// Download of several files over several connections.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capi/hub/error.h"
#include "capi/hub/hub_client.h"
#include "capi/hub/partial_file.h"
#include "capi/hub/progress.h"

namespace quire::hub {

// One download, whose connections share a list of pieces.
class Download {
 public:
  // `stop` is the caller's request to end.
  Download(const HubSettings& settings, const ModelName& name, std::string commit,
           const std::atomic<bool>& stop);

  void add(std::unique_ptr<PartialFile> file);
  // Bytes that the disk has to give.
  int64_t bytes_to_allocate() const;
  // Brings, checks and places every file. Throws HubError with the first failure; what has arrived remains
  // for the next download.
  void run(const ShowProgress& show_progress, const ShowFile& show_file);

 private:
  struct File {
    std::unique_ptr<PartialFile> content;
    std::string url;                       // at the hub
    std::string direct_url;                // after redirects; empty if unknown
    std::atomic<int64_t> num_missing = 0;  // pieces
    std::atomic<int> num_active = 0;       // connections that may write to it
    std::atomic<bool> is_whole = false;    // the hub sends no ranges, so one connection fetches everything
  };
  struct Piece {
    File* file = nullptr;
    int64_t number = 0;
  };
  // State that the threads share.
  struct Work {
    std::vector<Piece> pieces;
    size_t next_piece = 0;
    int num_threads = 0;  // that are not at their end
    std::vector<const RepositoryFile*> completed;
    std::exception_ptr failure;
  };
  class PieceSink;

  void plan();
  void work();
  bool next(Piece& piece);
  void fetch_piece(HubClient& client, const Piece& piece);
  // Takes over a file whose hub sends no ranges, unless another connection already does.
  void take_whole(HubClient& client, File& file);
  void fetch_whole(HubClient& client, File& file);
  HttpResponse request(HubClient& client, File& file, const std::optional<ByteRange>& range, PieceSink& sink);
  void complete_file(HubClient& client, File& file);
  void record_failure();
  // Returns the number of files that were shown.
  size_t wait_for_workers(const ShowProgress& show_progress, const ShowFile& show_file);
  // Shows the files that were completed since `num_shown`, and returns their number so far.
  size_t show_completed(size_t num_shown, const ShowFile& show_file);
  std::string name_of(const File& file) const;
  HubError other_bytes(const File& file) const;

  const HubSettings& settings_;
  const ModelName& name_;
  const std::string commit_;
  const std::atomic<bool>& caller_stop_;
  std::atomic<bool> stop_{false};  // the caller's request, or a failure
  std::vector<std::unique_ptr<File>> files_;

  std::atomic<int64_t> done_bytes_{0};
  int64_t total_bytes_ = 0;
  std::mutex mutex_;  // protects work_, and direct_url of the files
  Work work_;
};

}  // namespace quire::hub

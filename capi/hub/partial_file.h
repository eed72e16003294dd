// File that is being downloaded: the bytes that have arrived, and a journal of the pieces that are complete.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "capi/hub/files.h"
#include "capi/hub/repository.h"

namespace quire::hub {

// Files are fetched in pieces of this size, by several connections.
inline constexpr int64_t kPieceBytes = int64_t{16} << 20;

// Beside the finished contents are DIGEST.quire.incomplete and DIGEST.quire.pieces. Both remain after an
// interruption. huggingface_hub uses other names, so neither program takes the other's for its own.
class PartialFile {
 public:
  // Opens what an earlier download has left, or begins a new one. `blob` is the path of the finished file.
  PartialFile(RepositoryFile file, std::string blob);

  const RepositoryFile& file() const { return file_; }
  const std::string& blob() const { return blob_; }
  int64_t num_pieces() const { return static_cast<int64_t>(has_piece_.size()); }
  int64_t piece_bytes(int64_t piece) const;
  bool has_piece(int64_t piece) const { return has_piece_[static_cast<size_t>(piece)]; }
  int64_t bytes_here() const;
  // Bytes that the disk has to give for the rest.
  int64_t bytes_to_allocate() const;
  // True if some pieces are of an earlier download.
  bool is_continued() const { return is_continued_; }

  // Gives the file its size on the disk. Call it before the first write.
  void reserve() const {
    data_.resize(file_.size);
    data_.reserve(file_.size);
  }
  void write(int64_t offset, std::string_view bytes) const { data_.write_at(offset, bytes); }
  // Records that a piece is complete; any thread may call it.
  void complete(int64_t piece);
  // Returns the digest of the whole content, in hexadecimal. `stop` ends it early with HubError.
  std::string digest(const std::atomic<bool>& stop) const;
  // Moves the content to its place and removes the journal.
  void finish() const;
  // Removes everything and begins again.
  void begin_again();

 private:
  void read_journal();
  std::string header() const;

  const RepositoryFile file_;
  const std::string blob_;
  OpenFile data_;
  OpenFile journal_;
  std::mutex mutex_;  // protects has_piece_ while several threads complete pieces
  std::vector<bool> has_piece_;
  bool is_continued_ = false;
};

// Returns the digest of a finished file, of the kind that the hub lists for it.
std::string file_digest(const RepositoryFile& file, const std::string& path, const std::atomic<bool>& stop);

}  // namespace quire::hub

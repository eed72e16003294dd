#include "capi/hub/partial_file.h"

#include <gtest/gtest.h>

#include "capi/hub/error.h"
#include "core/base/sha256.h"
#include "tests/capi/hub/hub_folder.h"

namespace quire::hub {
namespace {

const std::atomic<bool> kNeverStop{false};
constexpr int64_t kTail = 1000;

class PartialFileTest : public testing::Test {
 protected:
  PartialFileTest() : content_(static_cast<size_t>(2 * kPieceBytes + kTail), '\0') {
    for (size_t i = 0; i < content_.size(); ++i) content_[i] = static_cast<char>(i * 2654435761U >> 13);
    file_ = {"w.safetensors", static_cast<int64_t>(content_.size()), sha256_hex(content_), ""};
  }
  std::unique_ptr<PartialFile> open() {
    auto file = std::make_unique<PartialFile>(file_, folder_.path() + "/blob");
    file->reserve();
    return file;
  }
  void bring(PartialFile& file, int64_t piece) {
    file.write(piece * kPieceBytes,
               std::string_view(content_).substr(static_cast<size_t>(piece * kPieceBytes),
                                                 static_cast<size_t>(file.piece_bytes(piece))));
    file.complete(piece);
  }

  HubFolder folder_;
  std::string content_;
  RepositoryFile file_;
};

TEST_F(PartialFileTest, AFileOfPiecesHasTheListedDigest) {
  auto file = open();
  ASSERT_EQ(file->num_pieces(), 3);
  EXPECT_EQ(file->piece_bytes(2), kTail);
  for (const int64_t piece : {2, 0, 1}) bring(*file, piece);
  EXPECT_EQ(file->digest(kNeverStop), file_.sha256);
  file->finish();
  EXPECT_EQ(folder_.read("blob"), content_);
  EXPECT_FALSE(folder_.has("blob.quire.incomplete"));
  EXPECT_FALSE(folder_.has("blob.quire.pieces"));
}

TEST_F(PartialFileTest, CompletePiecesRemainAfterAnInterruption) {
  bring(*open(), 1);
  auto file = open();
  EXPECT_TRUE(file->is_continued());
  EXPECT_EQ(file->bytes_here(), kPieceBytes);
  EXPECT_FALSE(file->has_piece(0));
  EXPECT_TRUE(file->has_piece(1));
  bring(*file, 0);
  bring(*file, 2);
  EXPECT_EQ(file->digest(kNeverStop), file_.sha256);
}

TEST_F(PartialFileTest, ATornLineOfTheJournalIsNoPiece) {
  bring(*open(), 1);
  folder_.write("blob.quire.pieces", folder_.read("blob.quire.pieces") + "2");
  {
    auto file = open();
    EXPECT_TRUE(file->has_piece(1));
    EXPECT_FALSE(file->has_piece(2));
    bring(*file, 0);
  }
  EXPECT_EQ(open()->bytes_here(), 2 * kPieceBytes);
}

TEST_F(PartialFileTest, AJournalThatDoesNotFitBeginsAgain) {
  for (const char* journal : {"", "garbage", "quire pieces 5 5\n0\n"}) {
    bring(*open(), 1);
    folder_.write("blob.quire.pieces", journal);
    EXPECT_EQ(open()->bytes_here(), 0) << journal;
  }
  for (const char* line : {"3\n", "-1\n", "x\n", "\n", "99999999999999999999\n"}) {
    bring(*open(), 1);
    folder_.write("blob.quire.pieces", folder_.read("blob.quire.pieces") + line);
    EXPECT_EQ(open()->bytes_here(), 0) << line;
  }
  bring(*open(), 1);
  std::filesystem::resize_file(folder_.path() + "/blob.quire.incomplete", 77);
  EXPECT_EQ(open()->bytes_here(), 0);
}

TEST_F(PartialFileTest, ASmallFileHasTheDigestOfGit) {
  file_ = {"config.json", 6, "", "ce013625030ba8dba906f756967f9e9ca394464a"};  // "hello\n"
  auto file = open();
  file->write(0, "hello\n");
  file->complete(0);
  EXPECT_EQ(file->digest(kNeverStop), file_.git_sha1);
  file->finish();
  EXPECT_EQ(file_digest(file_, folder_.path() + "/blob", kNeverStop), file_.git_sha1);
}

TEST_F(PartialFileTest, ALinkInPlaceOfTheFileIsNotFollowed) {
  folder_.write("precious", "data");
  folder_.link("blob.quire.incomplete", "precious");
  EXPECT_THROW(open(), HubError);
  EXPECT_EQ(folder_.read("precious"), "data");
}

}  // namespace
}  // namespace quire::hub

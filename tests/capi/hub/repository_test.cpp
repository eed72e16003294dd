#include "capi/hub/repository.h"

#include <gtest/gtest.h>

#include "capi/hub/error.h"

namespace quire::hub {
namespace {

const std::string kCommit(40, 'c');
const std::string kSha1(40, '1');
const std::string kSha256(64, '2');

std::string listing(const std::string& siblings) {
  return R"({"sha": ")" + kCommit + R"(", "siblings": [)" + siblings + "]}";
}

std::string small(const std::string& name, const std::string& size = "5") {
  return R"({"rfilename": ")" + name + R"(", "size": )" + size + R"(, "blobId": ")" + kSha1 + R"("})";
}

TEST(RepositoryTest, FilesHaveTheirSizesAndDigests) {
  const Repository repository = parse_repository(
      listing(small("config.json") + R"(, {"rfilename": "a/w.safetensors", "size": 9000000000, "blobId": ")" +
              kSha1 + R"(", "lfs": {"sha256": ")" + kSha256 +
              R"(", "size": 9000000000, "pointerSize": 134}})"),
      "org/name");
  EXPECT_EQ(repository.commit, kCommit);
  ASSERT_EQ(repository.files.size(), 2U);
  EXPECT_EQ(repository.files[0].path, "config.json");
  EXPECT_EQ(repository.files[0].size, 5);
  EXPECT_EQ(repository.files[0].blob(), kSha1);
  EXPECT_EQ(repository.files[1].size, 9000000000);
  EXPECT_EQ(repository.files[1].blob(), kSha256);
}

TEST(RepositoryTest, HostileListsAreErrorsThatNameTheModel) {
  const std::string lfs_without = R"({"rfilename": "w", "size": 5, "blobId": ")" + kSha1 + R"(", "lfs": {}})";
  std::vector<std::string> lists = {
      "",
      "[]",
      "null",
      "{}",
      "{",
      "\xff\xfe",
      R"({"sha": "main", "siblings": []})",
      R"({"sha": ")" + kCommit + R"("})",
      R"({"sha": ")" + kCommit + R"(", "siblings": {}})",
      listing("3"),
      listing("{}"),
      listing(lfs_without),
      listing(small("a") + "," + small("a")),
      listing(R"({"rfilename": "a", "blobId": ")" + kSha1 + R"("})"),
      listing(R"({"rfilename": "a", "size": 5, "blobId": "../../../etc/passwd"})"),
      listing(R"({"rfilename": 7, "size": 5})"),
      std::string(1000000, '['),
      R"({"sha": ")" + kCommit + R"(", "x": )" + std::string(1000, '[') + std::string(1000, ']') + "}"};
  for (const char* name :
       {"../x", "/etc/passwd", "a/../../b", "", "a\\\\b", "a\\u0000b", "a\\n", "a//b", "."})
    lists.push_back(listing(small(name)));
  for (const char* size :
       {"-1", "1e3", "\"5\"", "18446744073709551615", "99999999999999999999", "null", "1125899906842625"})
    lists.push_back(listing(small("a", size)));
  for (const std::string& list : lists) {
    try {
      parse_repository(list, "org/name");
      ADD_FAILURE() << list.substr(0, 200);
    } catch (const HubError& error) {
      EXPECT_EQ(std::string(error.what()).rfind("org/name: ", 0), 0U) << error.what();
    }
  }
}

// A parser with a callback takes minutes for such a list.
TEST(RepositoryTest, AListOfAMillionEntriesIsRefused) {
  std::string entries = "{}";
  for (int i = 0; i < 1000000; ++i) entries += ",{}";
  EXPECT_THROW(parse_repository(listing(entries), "org/name"), HubError);
}

TEST(RepositoryTest, BracketsInTextsAreNoDepth) {
  EXPECT_EQ(parse_repository(listing(small("a" + std::string(100, '[')) + "," + small("b")), "org/name")
                .files.size(),
            2U);
}

TEST(RepositoryTest, TooManyFilesAreAnError) {
  std::string files = small("f");
  for (int i = 0; i < 100000; ++i) files += "," + small(std::to_string(i));
  EXPECT_THROW(parse_repository(listing(files), "org/name"), HubError);
}

}  // namespace
}  // namespace quire::hub

#include "capi/hub/cache.h"

#include <gtest/gtest.h>

#include "capi/hub/error.h"
#include "tests/capi/hub/hub_folder.h"

namespace quire::hub {
namespace {

const std::string kFirst(40, 'a');
const std::string kSecond(40, 'b');

class CacheTest : public testing::Test {
 protected:
  // Adds a file to a snapshot as a link to a blob, as huggingface_hub does.
  void add(const std::string& commit, const std::string& name, const std::string& text) {
    const std::string blob = "blob-" + commit.substr(0, 1) + "-" + std::to_string(num_blobs_++);
    folder_.write("models--org--name/blobs/" + blob, text);
    std::string up = "../../";
    for (const char c : name) up += c == '/' ? "../" : "";
    folder_.link("models--org--name/snapshots/" + commit + "/" + name, up + "blobs/" + blob);
  }
  void refer(const std::string& revision, const std::string& commit) {
    folder_.write("models--org--name/refs/" + revision, commit);
  }
  CachedModel find(const std::string& name) {
    return find_cached_model(folder_.path(), parse_model_name(name));
  }
  std::string snapshot(const std::string& commit) const {
    return folder_.path() + "/models--org--name/snapshots/" + commit;
  }
  void expect_absent(const std::string& name) {
    try {
      find(name);
      ADD_FAILURE() << name;
    } catch (const HubError& error) {
      EXPECT_EQ(error.problem(), Problem::absent);
      EXPECT_NE(std::string(error.what()).find("quire pull " + name), std::string::npos) << error.what();
    }
  }

  HubFolder folder_;
  int num_blobs_ = 0;
};

TEST_F(CacheTest, ADirectoryIsFoundByItsBranchAndByItsCommit) {
  add(kFirst, "config.json", "{}");
  add(kFirst, "model.safetensors", "1234");
  refer("main", kFirst);
  refer("refs/pr/1", kFirst);
  for (const std::string& name :
       {std::string("org/name"), "org/name@" + kFirst, std::string("org/name@refs/pr/1")}) {
    EXPECT_EQ(find(name).path, snapshot(kFirst));
    EXPECT_EQ(find(name).bytes, 6);
  }
  expect_absent("org/name@other");
  expect_absent("org/other");
  expect_absent("org/name:Q4_K_M");
}

TEST_F(CacheTest, AGgufFileIsFoundByItsQuantization) {
  add(kFirst, "m-Q4_K_M.gguf", "1234");
  add(kFirst, "m-Q8_0.gguf", "12345678");
  refer("main", kFirst);
  EXPECT_EQ(find("org/name:Q8_0").path, snapshot(kFirst) + "/m-Q8_0.gguf");
  EXPECT_EQ(find("org/name").path, snapshot(kFirst) + "/m-Q4_K_M.gguf");
  EXPECT_EQ(find("org/name:m-Q8_0.gguf").bytes, 8);
}

TEST_F(CacheTest, ABranchThatMovedLeadsToItsNewSnapshot) {
  add(kFirst, "a.gguf", "old");
  add(kSecond, "a.gguf", "new!");
  refer("main", kSecond);
  EXPECT_EQ(find("org/name").bytes, 4);
  EXPECT_EQ(find("org/name@" + kFirst).bytes, 3);
}

TEST_F(CacheTest, AnInterruptedOrDamagedDownloadIsAbsent) {
  add(kFirst, "config.json", "{}");
  expect_absent("org/name");  // no reference yet
  refer("main", kFirst);
  expect_absent("org/name");  // no weights
  folder_.link("models--org--name/snapshots/" + kFirst + "/model.safetensors", "../../blobs/gone");
  expect_absent("org/name");  // a link to nothing
  refer("main", "../../../../etc");
  expect_absent("org/name");
  refer("main", std::string(100000, 'a'));
  expect_absent("org/name");
}

TEST_F(CacheTest, AllModelsAreListedWithNamesThatFindThem) {
  add(kFirst, "m-Q4_K_M.gguf", "1234");
  add(kFirst, "m-Q8_0-00001-of-00002.gguf", "12");
  add(kFirst, "m-Q8_0-00002-of-00002.gguf", "345");
  add(kSecond, "config.json", "{}");
  add(kSecond, "model.safetensors", "12345");
  refer("main", kFirst);
  folder_.write("models--broken", "a file");
  folder_.write("datasets--org--name/refs/main", kFirst);
  folder_.write("models--..--x/refs/main", kFirst);
  const std::vector<CachedModel> models = list_cached_models(folder_.path());
  ASSERT_EQ(models.size(), 3U);
  for (const CachedModel& model : models) EXPECT_EQ(find(model.name.text()).path, model.path);
  EXPECT_EQ(models[0].name.text(), "org/name:Q4_K_M");
  EXPECT_EQ(models[1].name.text(), "org/name:Q8_0");
  EXPECT_EQ(models[1].bytes, 5);
  EXPECT_EQ(models[2].name.text(), "org/name@" + kSecond);
}

TEST_F(CacheTest, ACacheThatDoesNotExistHasNoModels) {
  EXPECT_TRUE(list_cached_models(folder_.path() + "/nowhere").empty());
}

TEST_F(CacheTest, FoldersThatLinkToThemselvesEnd) {
  add(kFirst, "config.json", "{}");
  folder_.link("models--org--name/snapshots/" + kFirst + "/loop", ".");
  refer("main", kFirst);
  expect_absent("org/name");
}

}  // namespace
}  // namespace quire::hub

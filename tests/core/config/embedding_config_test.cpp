#include "core/config/embedding_config.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/json_text.h"
#include "tests/support/memory_file_system.h"

namespace quire {
namespace {

using testing::expect_error;
using testing::Json;
using testing::MemoryFileSystem;

Json modules(const std::vector<std::string>& types) {
  Json list = Json::array();
  for (const std::string& type : types) {
    list.push_back({{"idx", list.size()},
                    {"path", type == "Transformer" ? "" : std::to_string(list.size()) + "_" + type},
                    {"type", "sentence_transformers.models." + type}});
  }
  return list;
}

EmbeddingConfig declared_by(const Json& modules, const Json& pooling) {
  MemoryFileSystem files;
  files.write("m/modules.json", modules.dump());
  files.write("m/1_Pooling/config.json", pooling.dump());
  return read_embedding_config(files, "m");
}

const std::vector<std::string> kUsual = {"Transformer", "Pooling", "Normalize"};

TEST(EmbeddingConfig, ReadsThePoolingThatIsDeclared) {
  EXPECT_EQ(
      declared_by(modules(kUsual), {{"pooling_mode_lasttoken", true}, {"pooling_mode_mean_tokens", false}})
          .pooling,
      DeclaredPooling::last);
  EXPECT_EQ(declared_by(modules(kUsual), {{"pooling_mode_mean_tokens", true}}).pooling,
            DeclaredPooling::mean);
  EXPECT_EQ(declared_by(modules(kUsual), {{"pooling_mode", "lasttoken"}}).pooling, DeclaredPooling::last);
  EXPECT_EQ(declared_by(modules({"Transformer"}), {}).pooling, DeclaredPooling::none);
  EXPECT_EQ(read_embedding_config(MemoryFileSystem(), "m").pooling, DeclaredPooling::none);
}

TEST(EmbeddingConfig, NamesWhatIsNotSupported) {
  const auto unsupported = [](const Json& modules, const Json& pooling) {
    return declared_by(modules, pooling).unsupported;
  };
  EXPECT_EQ(unsupported(modules(kUsual), {{"pooling_mode_lasttoken", true}}), "");
  EXPECT_EQ(unsupported(modules(kUsual), {{"pooling_mode_cls_token", true}}),
            "m/1_Pooling/config.json: pooling_mode_cls_token");
  EXPECT_NE(
      unsupported(modules(kUsual), {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", true}}),
      "");
  EXPECT_NE(unsupported(modules(kUsual), Json::object()), "");
  EXPECT_EQ(unsupported(modules({"Transformer", "Pooling", "Dense"}), {{"pooling_mode_mean_tokens", true}}),
            "m/modules.json: a module of type Dense");
}

TEST(EmbeddingConfig, MalformedFilesAreRefusedByName) {
  Json outside = modules(kUsual);
  outside[1]["path"] = "../other";
  expect_error(ErrorCode::format, {"m/modules.json[1].path"}, [&] { declared_by(outside, {}); });
  expect_error(ErrorCode::format, {"m/modules.json"}, [&] { declared_by(Json::object(), {}); });
  expect_error(ErrorCode::format, {"m/1_Pooling/config.json.pooling_mode_lasttoken"}, [&] {
    declared_by(modules(kUsual), {{"pooling_mode_lasttoken", 1}});
  });
}

}  // namespace
}  // namespace quire

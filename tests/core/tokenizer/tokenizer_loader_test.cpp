// Files that must be refused, each with one clear line, and parts that may be missing.
#include <functional>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/core/tokenizer/tokenizer_fixture.h"

namespace quire {
namespace {

struct BadFile {
  std::string name;
  std::function<void(Json&)> spoil;
  ErrorCode code;
  std::string message;  // a part of it
};

Json split(const std::string& regex) {
  return Json::parse(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": ")" +
                     regex + R"("}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})");
}

Json nested_sequence(size_t depth) {
  Json json = {{"type", "NFC"}};
  for (size_t i = 0; i < depth; ++i) json = {{"type", "Sequence"}, {"normalizers", Json::array({json})}};
  return json;
}

Json unigram_of(const Json& vocab) {
  return {{"type", "Unigram"}, {"vocab", vocab}};
}

Json charsmap_of(const std::string& base64) {
  return {{"type", "Precompiled"}, {"precompiled_charsmap", base64}};
}

Json template_of(const std::string& single) {
  return Json::parse(R"({"type": "TemplateProcessing", "single": )" + single +
                     R"(, "pair": [], "special_tokens": {"x": {"id": "x", "ids": [999], "tokens": ["x"]}}})");
}

const std::vector<BadFile>& bad_files() {
  constexpr auto kFormat = ErrorCode::format;
  constexpr auto kUnsupported = ErrorCode::unsupported;
  static const auto* files = new std::vector<BadFile>{
      {"not_an_object", [](Json& j) { j = Json::array(); }, kFormat, "tokenizer.json must be an object"},
      {"no_model", [](Json& j) { j.erase("model"); }, kFormat, "tokenizer.json.model is missing"},
      {"model_is_a_string", [](Json& j) { j["model"] = "BPE"; }, kFormat, "tokenizer.json.model"},
      {"unknown_field", [](Json& j) { j["extra"] = 1; }, kUnsupported, "tokenizer.json.extra"},
      {"unknown_version", [](Json& j) { j["version"] = "2.0"; }, kUnsupported, "version: \"2.0\""},
      {"unknown_model", [](Json& j) { j["model"]["type"] = "WordMagic"; }, kUnsupported,
       "model.type: \"WordMagic\""},
      {"unknown_model_field", [](Json& j) { j["model"]["magic"] = true; }, kUnsupported, "model.magic"},
      {"no_vocab", [](Json& j) { j["model"].erase("vocab"); }, kFormat, "model.vocab is missing"},
      {"vocab_is_a_list",
       [](Json& j) {
         j["model"]["vocab"] = {1, 2};
       },
       kFormat, "model.vocab must be an object"},
      {"negative_id", [](Json& j) { j["model"]["vocab"]["zz"] = -1; }, kFormat, "the id of \"zz\""},
      {"fractional_id", [](Json& j) { j["model"]["vocab"]["zz"] = 1.5; }, kFormat, "the id of \"zz\""},
      {"string_id", [](Json& j) { j["model"]["vocab"]["zz"] = "7"; }, kFormat, "the id of \"zz\""},
      {"duplicate_id", [](Json& j) { j["model"]["vocab"]["zz"] = 65; }, kFormat, "the id 65 belongs to both"},
      {"id_beyond_32_bits", [](Json& j) { j["model"]["vocab"]["zz"] = 1LL << 40; }, kFormat,
       "the id of \"zz\""},
      {"id_beyond_64_bits", [](Json& j) { j["model"]["vocab"]["zz"] = UINT64_MAX; }, kFormat,
       "the id of \"zz\""},
      {"huge_gap", [](Json& j) { j["model"]["vocab"]["zz"] = 2000000000; }, kFormat,
       "2000000000 is too large"},
      {"no_merges", [](Json& j) { j["model"].erase("merges"); }, kFormat, "model.merges is missing"},
      {"merges_is_a_map", [](Json& j) { j["model"]["merges"] = Json::object(); }, kFormat, "model.merges"},
      {"merge_of_three", [](Json& j) { j["model"]["merges"] = {"a b c"}; }, kFormat, "merges[0]"},
      {"merge_of_one", [](Json& j) { j["model"]["merges"] = {"ab"}; }, kFormat, "merges[0]"},
      {"merge_triple",
       [](Json& j) {
         j["model"]["merges"] = Json::array({{"a", "b", "c"}});
       },
       kFormat, "merges[0]"},
      {"merge_of_numbers",
       [](Json& j) {
         j["model"]["merges"] = Json::array({{1, 2}});
       },
       kFormat, "merges[0]"},
      {"merge_spellings_mixed", [](Json& j) { j["model"]["merges"].push_back("h e"); }, kFormat, "merges[1]"},
      {"merge_part_unknown",
       [](Json& j) {
         j["model"]["merges"].push_back({"h", "xyz"});
       },
       kFormat, "hxyz"},
      {"merge_result_unknown",
       [](Json& j) {
         j["model"]["merges"].push_back({"q", "q"});
       },
       kFormat, "\"qq\""},
      {"merge_with_added_token",
       [](Json& j) {
         j["added_tokens"] = Json::array({added_token(300, "qq", false)});
         j["model"]["merges"].push_back({"q", "q"});
       },
       kFormat, "\"qq\""},
      {"dropout", [](Json& j) { j["model"]["dropout"] = 0.1; }, kUnsupported, "model.dropout"},
      {"random_unigram",
       [](Json& j) {
         j["model"] = {{"type", "Unigram"}, {"vocab", Json::array()}, {"alpha", 0.1}};
       },
       kUnsupported, "alpha"},
      {"unigram_map", [](Json& j) { j["model"]["type"] = "Unigram"; }, kFormat, "model.vocab must be a list"},
      {"bpe_list",
       [](Json& j) {
         j["model"]["vocab"] = Json::array({{"a", 0.0}});
       },
       kFormat, "model.vocab must be an object"},
      {"unigram_entry",
       [](Json& j) {
         j["model"] = {{"type", "Unigram"}, {"vocab", {"a", "b"}}};
       },
       kFormat, "model.vocab[0] must be a token and its score"},
      {"unigram_score",
       [](Json& j) {
         j["model"] = unigram_of(Json::array({Json::array({"a", "b"})}));
       },
       kFormat, "model.vocab[0][1] must be a finite number"},
      {"unigram_unknown",
       [](Json& j) {
         j["model"] = unigram_of(Json::array({Json::array({"a", 1})}));
         j["model"]["unk_id"] = 1;
       },
       kFormat, "model.unk_id"},
      {"unigram_long_token",
       [](Json& j) {
         j["model"] = unigram_of(Json::array({Json::array({std::string(513, 'a'), 1})}));
       },
       kUnsupported, "a token of 513 bytes"},
      {"word_piece_limit",
       [](Json& j) {
         j["model"] = {{"type", "WordPiece"}, {"vocab", {{"a", 0}}}, {"max_input_chars_per_word", -1}};
       },
       kFormat, "max_input_chars_per_word"},
      {"short_continuation",
       [](Json& j) {
         j["model"]["continuing_subword_prefix"] = "##";
         j["model"]["merges"] = {"h e"};
       },
       kFormat, "merges[0]: \"e\" is shorter than the prefix"},
      {"metaspace_scheme",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}};
       },
       kUnsupported, "prepend_scheme: \"last\""},
      {"metaspace_replacement",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "__"}};
       },
       kFormat, "replacement must be one character"},
      {"no_length",
       [](Json& j) {
         j["pre_tokenizer"] = {{"type", "FixedLength"}, {"length", 0}};
       },
       kFormat, "pre_tokenizer.length"},
      {"charsmap_text", [](Json& j) { j["normalizer"] = charsmap_of("*"); }, kFormat,
       "precompiled_charsmap is not base64"},
      {"charsmap_size", [](Json& j) { j["normalizer"] = charsmap_of("/////w=="); }, kFormat,
       "the trie's size"},
      {"charsmap_replacement", [](Json& j) { j["normalizer"] = charsmap_of("BAAAAAAAAAD/"); }, kFormat,
       "a replacement is not UTF-8"},
      {"fused_regex",
       [](Json& j) {
         j["decoder"] = {
             {"type", "Sequence"},
             {"decoders",
              Json::array({{{"type", "Fuse"}},
                           {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", ""}}})}};
       },
       kUnsupported, "decoders[1]"},
      {"stripped_text",
       [](Json& j) {
         j["decoder"] = {{"type", "Strip"}, {"content", "ab"}, {"start", 0}, {"stop", 0}};
       },
       kFormat, "content must be one character"},
      {"stripped_count",
       [](Json& j) {
         j["decoder"] = {{"type", "Strip"}, {"content", "a"}, {"start", 0}, {"stop", 1000000}};
       },
       kFormat, "decoder.stop"},
      {"long_prefix",
       [](Json& j) {
         j["normalizer"] = {{"type", "Prepend"}, {"prepend", std::string(513, 'a')}};
       },
       kUnsupported, "normalizer.prepend: 513 bytes"},
      {"long_replacement",
       [](Json& j) {
         j["decoder"] = {
             {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(65, 'a')}};
       },
       kUnsupported, "decoder.content: 65 bytes"},
      {"exploding_token",
       [](Json& j) {
         j["model"]["vocab"][std::string(70000, 'a')] = 300;
         j["decoder"] = {{"type", "ByteFallback"}};
       },
       kUnsupported, "expands token 300 to too much text"},
      {"cls_without_id",
       [](Json& j) {
         j["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"h", 104}}, {"cls", {"h"}}};
       },
       kFormat, "post_processor.cls must be a token and its id"},
      {"sep_unknown",
       [](Json& j) {
         j["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"h", 9999}}, {"cls", {"h", 104}}};
       },
       kFormat, "there is no token 9999"},
      {"unknown_pre_tokenizer", [](Json& j) { j["pre_tokenizer"]["type"] = "Odd"; }, kUnsupported,
       "pre_tokenizer.type: \"Odd\""},
      {"type_is_a_number", [](Json& j) { j["pre_tokenizer"]["type"] = 3; }, kFormat, "pre_tokenizer.type"},
      {"unknown_behavior",
       [](Json& j) {
         j["pre_tokenizer"] = split("a");
         j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Shuffled";
       },
       kUnsupported, "behavior: \"Shuffled\""},
      {"open_regex", [](Json& j) { j["pre_tokenizer"] = split("(a"); }, kUnsupported, "pattern.Regex"},
      {"backreference", [](Json& j) { j["pre_tokenizer"] = split(R"((a)\\1)"); }, kUnsupported,
       "pattern.Regex"},
      {"huge_repeat", [](Json& j) { j["pre_tokenizer"] = split("a{100000}"); }, kUnsupported,
       "pattern.Regex"},
      {"exploding_repeat",
       [](Json& j) { j["pre_tokenizer"] = split("(?:(?:(?:a{1000}){1000}){1000}){1000}"); }, kUnsupported,
       "pattern.Regex"},
      {"long_regex", [](Json& j) { j["pre_tokenizer"] = split(std::string(20000, 'a')); }, kUnsupported,
       "20000 bytes"},
      {"nested_groups",
       [](Json& j) { j["pre_tokenizer"] = split(std::string(1000, '(') + "a" + std::string(1000, ')')); },
       kUnsupported, "nested too deep"},
      {"unknown_normalizer",
       [](Json& j) {
         j["normalizer"] = {{"type", "Rot13"}};
       },
       kUnsupported, "normalizer.type: \"Rot13\""},
      {"normalizer_field",
       [](Json& j) {
         j["normalizer"] = {{"type", "NFC"}, {"x", 1}};
       },
       kUnsupported, "normalizer.x"},
      {"empty_pattern",
       [](Json& j) {
         j["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", "x"}};
       },
       kUnsupported, "an empty pattern"},
      {"deep_sequence", [](Json& j) { j["normalizer"] = nested_sequence(40); }, kFormat, "nested deeper"},
      {"many_steps",
       [](Json& j) {
         j["normalizer"] = {{"type", "Sequence"},
                            {"normalizers", Json(std::vector<Json>(17, {{"type", "NFC"}}))}};
       },
       kUnsupported, "more than 16 steps"},
      {"unknown_decoder",
       [](Json& j) {
         j["decoder"] = {{"type", "Odd"}};
       },
       kUnsupported, "decoder.type: \"Odd\""},
      {"unknown_post_processor",
       [](Json& j) {
         j["post_processor"] = {{"type", "Odd"}};
       },
       kUnsupported, "post_processor.type"},
      {"template_without_text", [](Json& j) { j["post_processor"] = template_of("[]"); }, kFormat,
       "no \"Sequence\""},
      {"template_with_pair",
       [](Json& j) { j["post_processor"] = template_of(R"([{"Sequence": {"id": "B"}}])"); }, kFormat,
       "must be \"A\""},
      {"template_token_unknown",
       [](Json& j) { j["post_processor"] = template_of(R"([{"SpecialToken": {"id": "y"}}])"); }, kFormat,
       "special_tokens.y is missing"},
      {"template_id_unknown",
       [](Json& j) { j["post_processor"] = template_of(R"([{"SpecialToken": {"id": "x"}}])"); }, kFormat,
       "there is no token 999"},
      {"added_tokens_is_a_map", [](Json& j) { j["added_tokens"] = Json::object(); }, kFormat,
       "must be a list"},
      {"added_without_id",
       [](Json& j) {
         j["added_tokens"] = {{{"content", "x"}}};
       },
       kFormat, "added_tokens[0].id"},
      {"added_without_content",
       [](Json& j) {
         j["added_tokens"] = {{{"id", 300}}};
       },
       kFormat, "added_tokens[0].content"},
      {"added_content_is_a_number",
       [](Json& j) {
         j["added_tokens"] = {{{"id", 300}, {"content", 5}}};
       },
       kFormat, "added_tokens[0].content"},
      {"added_negative_id", [](Json& j) { j["added_tokens"] = Json::array({added_token(-3, "x!", false)}); },
       kFormat, "added_tokens[0].id"},
      {"added_huge_id",
       [](Json& j) { j["added_tokens"] = Json::array({added_token(2000000000, "x!", false)}); }, kFormat,
       "too large"},
      {"added_twice",
       [](Json& j) {
         j["added_tokens"] = Json::array({added_token(300, "x!", false), added_token(301, "x!", true)});
       },
       kFormat, "appears twice"},
      {"added_id_twice",
       [](Json& j) {
         j["added_tokens"] = Json::array({added_token(300, "x!", false), added_token(300, "y!", false)});
       },
       kFormat, "the id 300 belongs to both"},
      {"added_id_taken", [](Json& j) { j["added_tokens"] = Json::array({added_token(65, "x!", false)}); },
       kFormat, "the id 65 belongs to both"},
      {"added_other_id", [](Json& j) { j["added_tokens"] = Json::array({added_token(300, "A", false)}); },
       kFormat, "has the id 300 here, but 65 elsewhere"},
      {"added_too_long",
       [](Json& j) { j["added_tokens"] = Json::array({added_token(300, std::string(600, 'x'), false)}); },
       kUnsupported, "600 bytes"},
      {"added_flag_is_a_string",
       [](Json& j) {
         j["added_tokens"] = Json::array({added_token(300, "x!", false)});
         j["added_tokens"][0]["lstrip"] = "yes";
       },
       kFormat, "lstrip must be true or false"},
  };
  return *files;
}

class BadTokenizerFile : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadTokenizerFile, IsRefusedWithOneLine) {
  Json json = tiny_tokenizer({{"h", "e"}});
  EXPECT_NO_THROW(load_json(json));
  GetParam().spoil(json);
  try {
    load_json(json);
    FAIL() << "loaded";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error_code_name(error.code()), error_code_name(GetParam().code)) << message;
    EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 400U) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(All, BadTokenizerFile, ::testing::ValuesIn(bad_files()),
                         [](const auto& param) { return param.param.name; });

TEST(TokenizerLoader, RefusesTextThatIsNotJson) {
  for (const std::string text : {"", "{", "null", "[]", "{\"model\": \"\xff\"}", "{\"a\": 1, \"a\": 2}"}) {
    EXPECT_THROW(Tokenizer::load({text, {}, {}, {}}), Error) << text;
  }
  EXPECT_THROW(Tokenizer::load({std::string(100000, '['), {}, {}, {}}), Error);
}

TEST(TokenizerLoader, RefusesTheSameTokenTwiceInTheText) {
  std::string text = tiny_tokenizer().dump();
  const size_t place = text.find("\"vocab\":{") + 9;
  text.insert(place, "\"A\":1000,");
  EXPECT_THROW(Tokenizer::load({text, {}, {}, {}}), Error);
}

TEST(TokenizerLoader, RefusesOtherFilesThatDisagree) {
  const std::string json = tiny_tokenizer().dump();
  const std::string other_id = R"({"added_tokens_decoder": {"700": {"content": "A"}}})";
  const std::string bad_key = R"({"added_tokens_decoder": {"0x5": {"content": "!!"}}})";
  const std::string taken = R"({"added_tokens_decoder": {"65": {"content": "!!"}}})";
  const std::string bad_name = R"({"bos_token": 5})";
  for (const std::string& config : {other_id, bad_key, taken, bad_name}) {
    EXPECT_THROW(Tokenizer::load({json, config, {}, {}}), Error) << config;
  }
  for (const std::string added : {R"({"A": 700})", R"({"!!": 65})", R"({"!!": -1})", R"([1])"}) {
    EXPECT_THROW(Tokenizer::load({json, {}, {}, added}), Error) << added;
  }
}

TEST(TokenizerLoader, LoadsOldFilesAndSmallGaps) {
  Json json = tiny_tokenizer({{"h", "e"}});
  json["model"].erase("type");
  json["model"]["merges"] = {"h e"};
  json["model"]["dropout"] = nullptr;
  json["model"]["end_of_word_suffix"] = "";
  json["added_tokens"] = Json::array({added_token(1000, "<gap>", true)});
  json["truncation"] = {{"max_length", 3}};
  const auto tokenizer = load_json(json);
  EXPECT_EQ(tokenizer->encode("hehehehe"), (TokenIds{256, 256, 256, 256}));
  EXPECT_EQ(tokenizer->vocab_size(), 1001U);
}

// Bytes that never occur in UTF-8 need no token.
TEST(TokenizerLoader, BytesThatCannotOccurMayBeMissing) {
  Json json = tiny_tokenizer();
  for (const char32_t c : {0xc0, 0xc1, 0xf5, 0xff}) json["model"]["vocab"].erase(utf8(std::u32string(1, c)));
  const auto tokenizer = load_json(json);
  const std::string text = utf8(U"\u00e9\u4e2d\U0010ffff");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text), false), text);
}

// A valid file that is cut anywhere gives an Error, never a crash.
TEST(TokenizerLoader, EveryPrefixIsRefused) {
  const std::string text = tiny_tokenizer({{"h", "e"}}).dump();
  for (size_t length = 0; length < text.size(); length += 7) {
    EXPECT_THROW(Tokenizer::load({text.substr(0, length), {}, {}, {}}), Error) << length;
  }
}

}  // namespace
}  // namespace quire

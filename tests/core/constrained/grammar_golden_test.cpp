// Grammars and regular expressions, tested with strings on which other engines agree.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/constrained/constraint_fixture.h"
#include "tests/support/golden_folders.h"

namespace quire {
namespace {

// Returns whether this library deliberately differs from the engine that produced the expectations.
bool differs_by_design(const std::string& source) {
  constexpr const char* kKnownDifferences[] = {
      "<[",                                  // tokens of a vocabulary that is not available here
      "tail: TEXT",                          // there a lazy rule that has ended excludes all other readings
      "a(?=b)c", "a^b$c",                    // there lookaround and anchors have no effect
      "start: %json {\"type\":\"integer\"}"  // there 1.0 is not an integer
  };
  return std::any_of(std::begin(kKnownDifferences), std::end(kKnownDifferences),
                     [&source](const char* part) { return source.find(part) != std::string::npos; });
}

void run_file(const std::string& path, ConstraintKind kind, const std::string& key) {
  int refused = 0;
  int checked = 0;
  const Json file = read_json_file(path);
  for (const Json& test : file["cases"]) {
    const std::string source = test[key];
    if (differs_by_design(source)) continue;
    std::shared_ptr<const Constraint> constraint;
    try {
      constraint = compile(kind, source);
    } catch (const Error& error) {
      ++refused;
      std::cout << "refused " << error.what() << "\n";
      continue;
    }
    for (const bool valid : {true, false}) {
      for (const Json& text : test[valid ? "accept" : "reject"]) {
        ++checked;
        EXPECT_EQ(accepts(constraint, text.get<std::string>()), valid) << source << "\n" << text;
        EXPECT_EQ(accepts_tokens(constraint, text.get<std::string>()), valid) << source << "\n" << text;
      }
    }
  }
  std::cout << checked << " checked, " << refused << " refused\n";
  EXPECT_GT(checked, 0);
}

void run(const std::string& name, ConstraintKind kind, const std::string& key) {
  for (const std::string& folder : testing::golden_folders("grammars"))
    run_file(folder + "/" + name, kind, key);
}

TEST(GrammarGolden, RegularExpressions) {
  run("regex.json", ConstraintKind::regex, "regex");
}

TEST(GrammarGolden, RegularExpressionsOfXgrammar) {
  run("xgrammar_regex.json", ConstraintKind::regex, "regex");
}

TEST(GrammarGolden, FilesOfLlamaCpp) {
  run("gbnf_files.json", ConstraintKind::gbnf, "grammar");
}

TEST(GrammarGolden, GrammarsOfLlamaCpp) {
  run("llama_cpp_grammars.json", ConstraintKind::gbnf, "grammar");
}

TEST(GrammarGolden, GrammarsOfXgrammar) {
  run("xgrammar_ebnf.json", ConstraintKind::gbnf, "grammar");
}

TEST(GrammarGolden, LarkOfXgrammar) {
  run("xgrammar_lark.json", ConstraintKind::lark, "grammar");
}

}  // namespace
}  // namespace quire

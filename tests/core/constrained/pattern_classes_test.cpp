// Character classes of patterns, compared with tables from the reference engines (tests/golden/patterns).
#include <gtest/gtest.h>

#include "core/constrained/pattern.h"
#include "tests/core/constrained/constraint_fixture.h"

namespace quire {
namespace {

CharSet char_set(const Json& ranges) {
  CharSet set;
  for (const Json& range : ranges) set.push_back({range[0].get<uint32_t>(), range[1].get<uint32_t>()});
  return normalized(std::move(set));
}

// Returns the single characters that the pattern matches.
CharSet chars_of(const std::string& pattern, PatternDialect dialect) {
  LanguageStore languages(10'000);
  PatternOptions options;
  options.dialect = dialect;
  CharSet set;
  for (const LanguageEdge& edge : languages.edges(parse_pattern("^" + pattern + "$", options, languages))) {
    if (languages.has_empty_text(edge.rest)) set.push_back({edge.first, edge.last});
  }
  return normalized(std::move(set));
}

void compare(const char* name, PatternDialect dialect) {
  const Json table = read_json_file(QUIRE_TEST_DATA "/patterns/classes.json")[name];
  const CharSet compared = complement(char_set(table["unassigned"]));
  for (const auto& [pattern, ranges] : table["classes"].items()) {
    for (const std::string& written : {pattern, pattern == "." ? pattern : "[" + pattern + "]"}) {
      EXPECT_EQ(intersected(chars_of(written, dialect), compared), intersected(char_set(ranges), compared))
          << written;
    }
  }
}

TEST(PatternClasses, SchemasFollowEcma262) {
  compare("ecma262", PatternDialect::ecma262);
}

TEST(PatternClasses, RegularExpressionsAndLarkFollowPython) {
  compare("python", PatternDialect::python);
}

// Python's re reads a missing minimum as 0; ECMA 262 treats such braces as literal text.
TEST(PatternCounts, FollowTheirReference) {
  struct Case {
    const char* pattern;
    const char* text;
    bool in_schema;
    bool elsewhere;
  };
  for (const Case& each :
       {Case{"a{,3}", "aaa", false, true}, Case{"a{,3}", "", false, true},
        Case{"a{,3}", "aaaa", false, false}, Case{"a{,3}", "a{,3}", true, false},
        Case{"a{,}", "aaaaa", false, true}, Case{"a{,}", "a{,}", true, false}, Case{"a{}", "a{}", true, true},
        Case{"a{,x}", "a{,x}", true, true}, Case{"a{2,}", "aaa", true, true}, Case{"a{2}", "a", false, false},
        Case{"a{,", "a{,", true, true}}) {
    const Json schema = {{"type", "string"}, {"pattern", std::string("^(?:") + each.pattern + ")$"}};
    EXPECT_EQ(accepts(compile(ConstraintKind::json_schema, schema.dump()), Json(each.text).dump()),
              each.in_schema)
        << each.pattern << " of a schema, " << each.text;
    EXPECT_EQ(accepts(compile(ConstraintKind::regex, each.pattern), each.text), each.elsewhere)
        << each.pattern << ", " << each.text;
  }
}

TEST(PatternClasses, EachKindOfConstraintFollowsItsReference) {
  struct Case {
    const char* text;
    bool in_schema;
    bool elsewhere;
  };
  for (const Case& each :
       {Case{"\uFEFF", true, false}, Case{"\u0085", false, true}, Case{"\u001C", false, true},
        Case{"\u00A0", true, true}, Case{"\u200B", false, false}}) {
    EXPECT_EQ(accepts(compile(ConstraintKind::json_schema, R"({"type": "string", "pattern": "^\\s$"})"),
                      Json(each.text).dump(-1, ' ', true)),
              each.in_schema);
    EXPECT_EQ(accepts(compile(ConstraintKind::regex, "\\s"), each.text), each.elsewhere);
    EXPECT_EQ(accepts(compile(ConstraintKind::lark, "start: /\\s/"), each.text), each.elsewhere);
  }
}

}  // namespace
}  // namespace quire

// Fault injection: every allocation of every call on a constraint fails once, and from then on for ever. The
// other texts of the constraint have the same masks as without the fault, and the call succeeds once memory
// is back.
#include <iostream>
#include <new>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/core/constrained/constraint_fixture.h"
#include "tests/support/case_stride.h"
#include "tests/support/fault_loop.h"

namespace quire {
namespace {

using testing::AllocationFault;
using testing::FaultPoint;
using testing::for_each_fault;

struct Source {
  ConstraintKind kind;
  const char* source;
  const char* text;  // that it allows
};

const Source kSources[] = {
    {ConstraintKind::json_schema,
     R"({"type": "array", "uniqueItems": true, "items": {"type": ["string", "integer"], "maxLength": 3}})",
     R"(["ab", 12, "é", 7])"},
    {ConstraintKind::json_schema,
     R"({"type": "object", "minProperties": 2, "additionalProperties": {"type": "number", "minimum": 2}})",
     R"({"a": 2.5, "b": 3e1})"},
    {ConstraintKind::json_schema, R"({"properties": {"a": {"pattern": "^[^x]{1,40}$"}}, "required": ["a"]})",
     R"({"a": "b\n\u00e9"})"},
    {ConstraintKind::gbnf, "root ::= <think>? (\"a\" root \"b\" | [^a-m]{1,3} \", \")* \".\"", "axy, .b."},
    {ConstraintKind::regex, R"(("[a-z ]*"|\d+)(, ?("[a-z ]*"|\d+)){0,3})", R"("a b", 12)"}};

TokenBits mask_of(const Matcher& matcher) {
  TokenBits mask(matcher.constraint().vocabulary().num_words());
  matcher.mask(mask);
  return mask;
}

// Results of a matcher at one position of its text.
struct Sight {
  TokenBits mask;
  std::string forced;
  std::string limit;
  bool operator==(const Sight&) const = default;
};

Sight sight_of(const Matcher& matcher) {
  Sight sight{mask_of(matcher), matcher.forced(20), matcher.exceeded_limit()};
  TokenIds tokens;
  matcher.force(4, tokens);
  return sight;
}

// Reads a text byte by byte from where the matcher is. Adds what it sees before each byte.
void read(Matcher& matcher, std::string_view text, std::vector<Sight>& seen) {
  while (matcher.text().size() < text.size()) {
    const size_t num_before = seen.size();
    if (num_before <= matcher.text().size()) seen.push_back(sight_of(matcher));
    const TokenId token = static_cast<uint8_t>(text[matcher.text().size()]);
    if (!matcher.accept(token)) throw std::logic_error("refused after " + matcher.text());
  }
  if (seen.size() <= text.size()) seen.push_back(sight_of(matcher));
}

std::vector<Sight> sights_of(const Source& source, const std::shared_ptr<const Constraint>& constraint) {
  std::vector<Sight> seen;
  Matcher matcher(constraint);
  read(matcher, source.text, seen);
  return seen;
}

// Runs with one fault; returns whether it was triggered.
bool run_with_fault(const Source& source, const FaultPoint& point, const std::vector<Sight>& expected) {
  const auto constraint = compile(source.kind, source.source);
  Matcher neighbour(constraint);
  std::vector<Sight> of_neighbour;
  read(neighbour, std::string_view(source.text).substr(0, 2), of_neighbour);
  std::optional<Matcher> victim;
  std::vector<Sight> of_victim;
  of_victim.reserve(expected.size() + 1);
  bool failed = false;
  {
    const AllocationFault fault(point.nth, point.span);
    try {
      victim.emplace(constraint);
      read(*victim, source.text, of_victim);
    } catch (const std::bad_alloc&) {
      failed = true;
    }
    EXPECT_EQ(failed, fault.num_failed() > 0);
  }
  read(neighbour, source.text, of_neighbour);
  EXPECT_EQ(of_neighbour, expected);
  if (!victim) victim.emplace(constraint);
  read(*victim, source.text, of_victim);
  EXPECT_EQ(of_victim, expected);
  EXPECT_TRUE(victim->may_end());
  victim->rollback(3);
  EXPECT_EQ(mask_of(*victim), expected[victim->text().size()].mask);
  EXPECT_EQ(sights_of(source, constraint), expected);
  return failed && !::testing::Test::HasFailure();
}

TEST(ConstraintFaults, ATextAndItsNeighbourSurviveEveryFailedAllocation) {
  int64_t num_faults = 0;
  for (const Source& source : kSources) {
    const std::vector<Sight> expected = sights_of(source, compile(source.kind, source.source));
    const int64_t num_points = for_each_fault(
        [&](const FaultPoint& point) {
          SCOPED_TRACE(::testing::Message() << source.source << ": " << point);
          return run_with_fault(source, point, expected);
        },
        23 * testing::stride_if_sanitized(5));
    EXPECT_GT(num_points, 20 / testing::stride_if_sanitized(5)) << source.source;
    num_faults += num_points;
    if (HasFailure()) return;
  }
  std::cout << num_faults << " faults\n";
}

// Full states are left for new ones in the middle of a text.
TEST(ConstraintFaults, AMoveToOtherStatesSurvivesEveryFailedAllocation) {
  const Source& source = kSources[0];
  const std::vector<Sight> expected = sights_of(source, compile(source.kind, source.source));
  ConstraintLimits limits;
  limits.max_states = 700;
  const auto vocabulary = small_vocabulary();
  const auto read_with_fault = [&](const FaultPoint& point) {
    SCOPED_TRACE(::testing::Message() << point);
    const auto constraint = Constraint::compile(source.kind, source.source, vocabulary, limits);
    std::vector<Sight> seen;
    Matcher matcher(constraint);
    read(matcher, "[\"ab", seen);
    Matcher other(constraint);
    std::vector<Sight> of_other;
    for (const char* const text : {"[7", "[\"ba\", 5, \"c\"", "[\"xyz\", \"zy\", 99, 98, 97"}) {
      of_other.clear();
      other = Matcher(constraint);
      read(other, text, of_other);
    }
    bool failed = false;
    {
      const AllocationFault fault(point.nth, point.span);
      try {
        read(matcher, source.text, seen);
      } catch (const std::bad_alloc&) {
        failed = true;
      }
      EXPECT_EQ(failed, fault.num_failed() > 0);
    }
    read(matcher, source.text, seen);
    EXPECT_EQ(seen, expected);
    return failed && !HasFailure();
  };
  const int64_t num_faults = for_each_fault(read_with_fault, 61 * testing::stride_if_sanitized(5));
  std::cout << num_faults << " faults\n";
  EXPECT_GT(num_faults, 20);
}

TEST(ConstraintFaults, CompilingSurvivesEveryFailedAllocation) {
  int64_t num_faults = 0;
  for (const Source& source : kSources) {
    const std::vector<Sight> expected = sights_of(source, compile(source.kind, source.source));
    num_faults += for_each_fault(
        [&](const FaultPoint& point) {
          SCOPED_TRACE(::testing::Message() << source.source << ": " << point);
          bool failed = false;
          const int64_t live_before = testing::num_live_allocations();
          {
            const AllocationFault fault(point.nth, point.span);
            try {
              (void)compile(source.kind, source.source);
            } catch (const std::bad_alloc&) {
              failed = true;
            }
            EXPECT_EQ(failed, fault.num_failed() > 0);
          }
          EXPECT_EQ(testing::num_live_allocations(), live_before);
          return failed && !HasFailure();
        },
        5);
    EXPECT_EQ(sights_of(source, compile(source.kind, source.source)), expected);
  }
  std::cout << num_faults << " faults\n";
}

}  // namespace
}  // namespace quire

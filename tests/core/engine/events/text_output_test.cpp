// Text output of a job, and what a rewind or a fork does to it.
#include "core/engine/events/text_output.h"

#include <gtest/gtest.h>

#include "tests/support/engine_fakes.h"

namespace quire::testing {
namespace {

// Returns the tokens that FakeCodec decodes to `letters`.
TokenIds spell(const std::string& letters) {
  TokenIds tokens;
  for (const char letter : letters) tokens.push_back(letter - 'a');
  return tokens;
}

class TextOutputTest : public ::testing::Test {
 protected:
  TextOutput open(const std::vector<std::string>& stops) const {
    return TextOutput(codec_.open(false), stops);
  }

  // Returns true if a stop string is complete.
  static bool push(TextOutput& output, const std::string& letters) {
    bool stopped = false;
    for (const TokenId token : spell(letters)) {
      SampledToken sampled;
      sampled.token = token;
      sampled.log_prob = static_cast<float>(token);
      stopped = output.push(sampled, true).stop.has_value();
    }
    return stopped;
  }

  FakeCodec codec_;
};

TEST_F(TextOutputTest, ARewindKeepsHeldTokens) {
  TextOutput output = open({"cde"});
  push(output, "ab");
  EXPECT_EQ(output.take().token_ids, spell("ab"));
  push(output, "cd");
  EXPECT_FALSE(output.has_text());
  TextOutput rewound = output.rewound(spell("abc"));
  EXPECT_EQ(rewound.num_pending_tokens(), 1U) << "c was never output";
  EXPECT_FALSE(push(rewound, "x"));
  const Event event = rewound.take();
  EXPECT_EQ(event.text, "cx");
  EXPECT_EQ(event.token_ids, spell("cx"));
  EXPECT_EQ(event.log_probs, (std::vector<float>{2.0F, 23.0F}));
}

TEST_F(TextOutputTest, ARewindDoesNotRepeatTextThatWasRead) {
  TextOutput output = open({});
  push(output, "abc");
  output.take();
  TextOutput rewound = output.rewound(spell("ab"));
  push(rewound, "z");
  EXPECT_EQ(rewound.take().text, "z");
}

TEST_F(TextOutputTest, ARewoundForkKeepsTheHeldTextOfItsParent) {
  TextOutput parent = open({"abc"});
  push(parent, "ab");
  TextOutput child = parent.clone();
  push(child, "x");
  child.take();
  TextOutput rewound = child.rewound({});
  EXPECT_TRUE(push(rewound, "c")) << "the stop string began before the fork";
}

}  // namespace
}  // namespace quire::testing

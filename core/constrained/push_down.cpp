#include "core/constrained/push_down.h"

#include <algorithm>
#include <unordered_set>

#include "core/base/error.h"

namespace quire {
namespace {

constexpr size_t kStackBytes = 48;          // of a stack item in the store and its index
constexpr size_t kMaxExpansions = 200'000;  // stacks expanded for one closure
using Kind = Expression::Kind;

}  // namespace

PushDown::PushDown(const ConstraintLimits& limits, const JsonForm& form)
    : limits_(limits),
      languages_(limits.max_states),
      automaton_(languages_, limits.max_states),
      stacks_(limits.max_items),
      json_(languages_, automaton_, stacks_, form) {}

void PushDown::build(Grammar grammar) {
  grammar_ = std::move(grammar);
  for (const SchemaPart& schema : grammar_.schemas)
    goals_.push_back(json_.add(grammar_.documents[schema.document], schema.reference));
  for (const Expression& expression : grammar_.expressions) {
    const bool language = expression.kind == Kind::language;
    starts_.push_back(language ? automaton_.start(expression.a, Spelling::utf8) : ByteAutomaton::kDead);
  }
  root_ = stacks_.push(StackOp::expression, grammar_.root, 0, StackStore::kEnd);
}

Position PushDown::start() {
  Position position;
  arrive(root_, position);
  finish(position);
  return position;
}

void PushDown::arrive(StackId stack, Position& position) {
  const Closure& found = closure(stack);
  position.ways.insert(position.ways.end(), found.ways.begin(), found.ways.end());
  position.ends = position.ends || found.ends;
}

void PushDown::finish(Position& position) const {
  std::sort(position.ways.begin(), position.ways.end());
  position.ways.erase(std::unique(position.ways.begin(), position.ways.end()), position.ways.end());
  if (position.ways.size() > limits_.max_ways) {
    throw Error(ErrorCode::capacity,
                "the constraint is too ambiguous: more than max_ways = {} ways to read a text",
                limits_.max_ways);
  }
}

Position PushDown::after(const Position& from, uint8_t byte, std::string_view text) {
  check_bytes();
  Position position;
  JsonMachine::EndedItems items;
  for (const Way& way : from.ways) {
    if ((way.state & kTokenState) != 0) continue;
    const ByteStateId state = automaton_.next(way.state, byte);
    if (state == ByteAutomaton::kDead) continue;
    if (automaton_.leads_on(state)) position.ways.push_back({state, way.stack});
    if (!automaton_.accepts(state)) continue;
    const StackId stack = settle(way.stack, text, items);
    if (stack != JsonMachine::kNoStack) arrive(stack, position);
  }
  finish(position);
  return position;
}

bool PushDown::takes(const TokenSet& set, TokenId token) const {
  return (std::find(set.ids.begin(), set.ids.end(), token) != set.ids.end()) != set.negated;
}

int PushDown::only_byte(const Position& from) {
  int only = -1;
  if (from.ends) return only;
  for (const Way& way : from.ways) {
    if ((way.state & kTokenState) != 0) return -1;
    const int byte = automaton_.only_byte(way.state);
    if (byte < 0 || (only >= 0 && byte != only)) return -1;
    only = byte;
  }
  return only;
}

std::bitset<256> PushDown::next_bytes(const Position& from) {
  std::bitset<256> bytes;
  for (const Way& way : from.ways) {
    if ((way.state & kTokenState) != 0) continue;
    const ByteRow& row = automaton_.row(way.state);
    for (size_t byte = 0; byte < row.size(); ++byte) {
      if (row[byte] != ByteAutomaton::kDead) bytes.set(byte);
    }
  }
  return bytes;
}

Position PushDown::after_token(const Position& from, TokenId token) {
  Position position;
  for (const Way& way : from.ways) {
    if ((way.state & kTokenState) == 0) continue;
    if (takes(grammar_.token_sets[way.state & ~kTokenState], token)) arrive(way.stack, position);
  }
  finish(position);
  return position;
}

const Closure& PushDown::closure(StackId stack) {
  closures_.grow_to(stack + size_t{1});
  if (closures_[stack] == nullptr) {
    auto made = std::make_unique<Closure>();
    expand(stack, *made);
    closure_bytes_ += sizeof(Closure) + made->ways.capacity() * sizeof(Way);
    closures_[stack] = std::move(made);
  }
  return *closures_[stack];
}

void PushDown::expand(StackId stack, Closure& closure) {
  std::vector<StackId> more = {stack};
  std::unordered_set<StackId> seen;
  while (!more.empty()) {
    const StackId id = more.back();
    more.pop_back();
    if (!seen.insert(id).second) continue;
    if (seen.size() > kMaxExpansions) {
      throw Error(ErrorCode::capacity,
                  "the constraint expands more than max_expansions = {} rules between two bytes",
                  kMaxExpansions);
    }
    const StackNode node = stacks_.at(id);
    switch (node.op) {
      case StackOp::end:
        closure.ends = true;
        break;
      case StackOp::expression:
        expand_expression(node, closure, more);
        break;
      case StackOp::sequence:
        expand_sequence(node.a, node.b, node.next, more);
        break;
      case StackOp::repetition:
        expand_repetition(node, more);
        break;
      default:
        json_.expand(node, closure, more);
    }
  }
  std::sort(closure.ways.begin(), closure.ways.end());
  closure.ways.erase(std::unique(closure.ways.begin(), closure.ways.end()), closure.ways.end());
}

void PushDown::expand_expression(const StackNode& node, Closure& closure, std::vector<StackId>& more) {
  const Expression& expression = grammar_.expressions[node.a];
  switch (expression.kind) {
    case Kind::nothing:
    case Kind::conjunction:  // normalization makes languages of these two
    case Kind::negation:
      return;
    case Kind::empty:
      more.push_back(node.next);
      return;
    case Kind::language:
      if (languages_.has_empty_text(expression.a)) more.push_back(node.next);
      if (starts_[node.a] != ByteAutomaton::kDead) closure.ways.push_back({starts_[node.a], node.next});
      return;
    case Kind::tokens:
      closure.ways.push_back({kTokenState | expression.a, node.next});
      return;
    case Kind::sequence:
      return expand_sequence(node.a, 0, node.next, more);
    case Kind::choice:
      for (const ExpressionId part : expression.parts)
        more.push_back(stacks_.push(StackOp::expression, part, 0, node.next));
      return;
    case Kind::repetition:
      more.push_back(stacks_.push(StackOp::repetition, node.a, 0, node.next));
      return;
    case Kind::rule:
      if (stacks_.at(node.next).depth >= JsonMachine::kMaxDepth) {
        closure.is_cut = true;
        return;
      }
      more.push_back(stacks_.push(StackOp::expression, grammar_.rules[expression.a].body, 0, node.next));
      return;
    case Kind::json:
      more.push_back(stacks_.push(StackOp::value, goals_[expression.a], 0, node.next));
      return;
  }
}

// The last part replaces the sequence on the stack, so that tail recursion does not grow the stack.
void PushDown::expand_sequence(ExpressionId id, uint32_t done, StackId next, std::vector<StackId>& more) {
  const std::vector<ExpressionId>& parts = grammar_.expressions[id].parts;
  if (done >= parts.size()) {
    more.push_back(next);
    return;
  }
  const StackId rest = done + 1 == parts.size() ? next : stacks_.push(StackOp::sequence, id, done + 1, next);
  more.push_back(stacks_.push(StackOp::expression, parts[done], 0, rest));
}

void PushDown::expand_repetition(const StackNode& node, std::vector<StackId>& more) {
  const Expression& expression = grammar_.expressions[node.a];
  if (node.b >= expression.min) more.push_back(node.next);
  if (node.b >= expression.max) return;
  const uint32_t last = expression.max == kNoMaximum ? expression.min : expression.max;
  const StackId again = stacks_.push(StackOp::repetition, node.a, std::min(node.b + 1, last), node.next);
  more.push_back(stacks_.push(StackOp::expression, expression.a, 0, again));
}

void PushDown::check_limits() const {
  if (num_items() > limits_.max_items) throw StatesFull("max_items", limits_.max_items, "items");
  if (num_states() > limits_.max_states) throw StatesFull("max_states", limits_.max_states, "states");
  if (held_bytes() > limits_.max_bytes) throw StatesFull("max_bytes", limits_.max_bytes, "bytes");
}

size_t PushDown::held_bytes() const {
  return languages_.held_bytes() + automaton_.held_bytes() + json_.held_bytes() + closure_bytes_ +
         stacks_.size() * kStackBytes;
}

}  // namespace quire

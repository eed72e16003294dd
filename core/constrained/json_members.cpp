// Objects: which members may come next, so that the text can always be completed.
#include <algorithm>
#include <bit>

#include "core/constrained/json_machine.h"

namespace quire {
namespace {

bool is_bit_set(const uint64_t* words, uint32_t bit) {
  return (words[bit / 64] >> (bit % 64) & 1) != 0;
}
void set_bit(uint64_t* words, uint32_t bit) {
  words[bit / 64] |= uint64_t{1} << (bit % 64);
}

// Returns whether no needed name has been passed.
bool needs_none_before(uint32_t place, const std::vector<bool>& needed) {
  const auto end = needed.begin() + place;
  return std::find(needed.begin(), end, true) == end;
}

}  // namespace

bool JsonMachine::is_seen(const Facts& facts, uint32_t name) {
  return is_bit_set(&facts[kSeen], name);
}

bool JsonMachine::may_close(const ObjectProgram& program, const Facts& facts) {
  if (facts[kCount] < program.min || facts[kCount] > program.max) return false;
  if ((program.obligations & ~facts[kFulfilled]) != 0) return false;
  const auto seen = [&facts](uint32_t name) { return is_seen(facts, name); };
  return std::all_of(program.required.begin(), program.required.end(), seen) &&
         std::all_of(program.implications.begin(), program.implications.end(),
                     [&seen](const Implication& implication) {
                       return !seen(implication.name) || seen(implication.needed);
                     });
}

// Returns the names that must still come, because they are required or a name needs them.
std::vector<bool> JsonMachine::needed_names(const ObjectProgram& program, const Facts& facts) {
  std::vector<bool> needed(program.num_names);
  for (const uint32_t name : program.required) needed[name] = !is_seen(facts, name);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Implication& implication : program.implications) {
      const bool there = is_seen(facts, implication.name) || needed[implication.name];
      if (!there || is_seen(facts, implication.needed) || needed[implication.needed]) continue;
      needed[implication.needed] = true;
      changed = true;
    }
  }
  return needed;
}

uint32_t JsonMachine::num_needed(const ObjectProgram& program, const Facts& facts) {
  const std::vector<bool> needed = needed_names(program, facts);
  uint64_t open = program.obligations & ~facts[kFulfilled];
  auto count = static_cast<uint32_t>(std::count(needed.begin(), needed.end(), true));
  for (const KeyClass& key : program.classes) {
    if (key.name == kNoName || !needed[key.name]) continue;
    for (const MemberOption& option : key.options) open &= ~option.fulfils;
  }
  // One member may fulfil several obligations; at least one more member is needed.
  return count + (open != 0 ? 1 : 0);
}

bool JsonMachine::may_add(const ObjectProgram& program, const Facts& facts, const KeyClass& key) {
  return std::any_of(key.options.begin(), key.options.end(), [&](const MemberOption& option) {
    return may_come(program, facts, {key, option});
  });
}

bool JsonMachine::may_come(const ObjectProgram& program, const Facts& facts, const Member& member) {
  const KeyClass& key = member.key;
  if (key.name != kNoName && is_seen(facts, key.name)) return false;
  if (!leaves_enough_members(program, facts, member)) return false;
  if (!program.in_order) return true;
  if (!keeps_order(program, facts, key)) return false;
  const bool is_simple = program.implications.empty() && program.obligations == 0 && program.min == 0;
  if (is_simple) return true;
  // The others come last, so no name may still be needed.
  if (key.name == kNoName && !needs_none_before(program.num_names, needed_names(program, facts)))
    return false;
  return can_be_completed(program, with_member(program, facts, member));
}

// Returns whether `max` leaves enough members for those still required after adding this one.
bool JsonMachine::leaves_enough_members(const ObjectProgram& program, const Facts& facts,
                                        const Member& member) {
  if (program.max == kNoMaximum) return true;
  return facts[kCount] + 1 + num_needed(program, with_member(program, facts, member)) <= program.max;
}

bool JsonMachine::may_add_any(const ObjectProgram& program, const Facts& facts) {
  return std::any_of(program.classes.begin(), program.classes.end(), [&](const KeyClass& key) {
    const bool is_other = key.name == kNoName && program.distinct();
    return may_add(program, facts, key) && !(is_other && languages_.is_empty(unused(key.keys, facts, true)));
  });
}

// Returns how many names can no longer come in an object in order: those up to its last member.
uint32_t JsonMachine::place_in_order(const ObjectProgram& program, const Facts& facts) {
  for (uint32_t word = (program.num_names + 63) / 64; word-- > 0;) {
    const uint64_t bits = facts[kSeen + word];
    if (bits != 0) return 64 * word + 64 - static_cast<uint32_t>(std::countl_zero(bits));
  }
  return 0;
}

// Returns whether the name comes after all names so far and passes no required one.
bool JsonMachine::keeps_order(const ObjectProgram& program, const Facts& facts, const KeyClass& key) {
  const uint32_t place = place_in_order(program, facts);
  const uint32_t name = key.name == kNoName ? program.num_names : key.name;
  const auto next = std::lower_bound(program.required.begin(), program.required.end(), place);
  return name >= place && (next == program.required.end() || *next >= name);
}

// Returns whether the names that have not been passed can complete an object in order.
bool JsonMachine::can_be_completed(const ObjectProgram& program, const Facts& facts) {
  const uint32_t place = place_in_order(program, facts);
  if (!needs_none_before(place, needed_names(program, facts))) return false;
  uint64_t open = program.obligations & ~facts[kFulfilled];
  uint64_t count = facts[kCount];
  bool others = false;
  for (const KeyClass& key : program.classes) {
    if (!can_come_later(program, facts, key)) continue;
    for (const MemberOption& option : key.options) open &= ~option.fulfils;
    others = others || key.name == kNoName;
    ++count;
  }
  return open == 0 && (others || count >= program.min);
}

// Returns whether a member with this key can come later, and all members that it needs with it.
bool JsonMachine::can_come_later(const ObjectProgram& program, const Facts& facts, const KeyClass& key) {
  if (key.name == kNoName) return true;
  const uint32_t place = place_in_order(program, facts);
  if (key.name < place) return false;
  if (program.implications.empty()) return true;
  Facts then = facts;
  set_bit(&then[kSeen], key.name);
  return needs_none_before(place, needed_names(program, then));
}

JsonMachine::Facts JsonMachine::with_member(const ObjectProgram& program, Facts facts, const Member& member) {
  // Stop counting once the count cannot matter any more, to keep the number of states small.
  const uint64_t last_count = program.max == kNoMaximum ? program.min : uint64_t{program.max};
  facts[kCount] = std::min(facts[kCount] + 1, last_count);
  facts[kFulfilled] |= member.option.fulfils;
  const uint32_t name = member.key.name;
  if (name != kNoName) set_bit(&facts[kSeen], name);
  if (!program.in_order) return facts;
  // Names that were passed cannot come any more, like those seen. They count as seen, also to keep the number
  // of states small, but if names need others it matters which of them came.
  uint32_t num_passed = 0;
  if (name == kNoName) num_passed = program.num_names;
  if (name != kNoName && program.implications.empty()) num_passed = name;
  for (uint32_t passed = 0; passed < num_passed; ++passed) set_bit(&facts[kSeen], passed);
  return facts;
}

}  // namespace quire

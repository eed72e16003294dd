// Long file: compiling a schema and running the result belong together, and each part explains the other.

#include "core/constrained/json_machine.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/constrained/pattern.h"
#include "core/constrained/shape_algebra.h"

namespace quire {
namespace {

constexpr size_t kMaxObligations = 64;
constexpr size_t kMaxKeyClasses = 4096;
constexpr size_t kMaxCounts = 6;
constexpr size_t kMaxPrograms = 200'000;

// White space as JSON printers write it: none, one space, or a line end with the indentation of the next
// line.
#define QUIRE_JSON_SPACE "([ \t]|\r?\n[ \t]{0,400})?"

std::string canonical_scalar(const JsonValue& value) {
  if (const bool* const flag = value.as_bool()) return *flag ? "true" : "false";
  if (const std::string* const text = value.as_string()) return json_quoted(*text);
  if (const int64_t* const whole = value.as_int()) return parse_decimal(fmt::format("{}", *whole)).text();
  if (const double* const number = value.as_double()) return to_decimal(*number).text();
  return "null";
}

// A list or an object, and the canonical forms of its first parts.
class OpenForm {
 public:
  explicit OpenForm(const JsonValue& value) : items_(value.as_array()), members_(value.as_object()) {}

  bool is_complete() const { return num_done_ == (items_ != nullptr ? items_->size() : members_->size()); }
  const JsonValue& next() const {
    return items_ != nullptr ? (*items_)[num_done_] : (*members_)[num_done_].value;
  }
  void take(std::string form) {
    if (items_ != nullptr) {
      text_.append(num_done_ == 0 ? "" : ",").append(form);
    } else {
      by_key_[json_quoted((*members_)[num_done_].key)] = std::move(form);
    }
    ++num_done_;
  }
  std::string close() {
    for (const auto& [key, form] : by_key_)
      text_.append(text_.empty() ? "" : ",").append(key).append(":").append(form);
    return items_ != nullptr ? "[" + text_ + "]" : "{" + text_ + "}";
  }

 private:
  const JsonValue::Array* items_;
  const JsonValue::Object* members_;
  size_t num_done_ = 0;
  std::string text_;
  std::map<std::string, std::string> by_key_;
};

// Returns a canonical form of a JSON value: equal values, and only those, have the same form. Uses no
// recursion, because the value may be nested to the limit of a text.
std::string canonical(const JsonValue& root) {
  std::vector<OpenForm> open;
  for (const JsonValue* value = &root;; value = &open.back().next()) {
    std::string form;
    if (value->as_array() != nullptr || value->as_object() != nullptr) {
      open.emplace_back(*value);
    } else {
      form = canonical_scalar(*value);
      if (open.empty()) return form;
      open.back().take(std::move(form));
    }
    while (open.back().is_complete()) {
      form = open.back().close();
      open.pop_back();
      if (open.empty()) return form;
      open.back().take(std::move(form));
    }
  }
}

// Returns the canonical form of a value's text. Text with a duplicate key, which parse_json refuses, is its
// own form.
std::string canonical_item(std::string_view text) {
  try {
    return canonical(parse_json(text, "item", {text.size(), JsonMachine::kMaxDepth}));
  } catch (const Error&) {
    return std::string(text);
  }
}

}  // namespace

JsonMachine::JsonMachine(LanguageStore& languages, ByteAutomaton& automaton, StackStore& stacks,
                         const JsonForm& form)
    : languages_(languages),
      automaton_(automaton),
      stacks_(stacks),
      schema_{form, nullptr, 0},
      marks_(make_marks()) {}

JsonMachine::Marks JsonMachine::make_marks() const {
  const auto lexeme = [this](std::string_view pattern) {
    return automaton_.start(parse_pattern(pattern, {}, languages_), Spelling::utf8);
  };
  if (schema_.form.space != JsonSpace::printed) {
    const bool blank = schema_.form.space == JsonSpace::spaced;
    return {.colon = lexeme(blank ? ": " : ":"),
            .comma = lexeme(blank ? ", " : ","),
            .open_object = lexeme("\\{"),
            .open_array = lexeme("\\["),
            .close_object = lexeme("\\}"),
            .close_array = lexeme("\\]"),
            .close_object_now = lexeme("\\}"),
            .close_array_now = lexeme("\\]")};
  }
  return {.colon = lexeme(" ?:" QUIRE_JSON_SPACE),
          .comma = lexeme(QUIRE_JSON_SPACE "," QUIRE_JSON_SPACE),
          .open_object = lexeme("\\{" QUIRE_JSON_SPACE),
          .open_array = lexeme("\\[" QUIRE_JSON_SPACE),
          .close_object = lexeme(QUIRE_JSON_SPACE "\\}"),
          .close_array = lexeme(QUIRE_JSON_SPACE "\\]"),
          .close_object_now = lexeme("\\}"),
          .close_array_now = lexeme("\\]")};
}

GoalId JsonMachine::add(const JsonValue& document, std::string_view reference) {
  schema_.compiler = std::make_unique<SchemaCompiler>(document, languages_, schema_.form);
  schema_.first_goal = static_cast<GoalId>(goals_.size());
  const size_t first_object = objects_.size();
  const GoalId root = schema_.compiler->root(reference);
  // Making programs can add goals; the loop covers those as well.
  for (GoalId goal = 0; goal < schema_.compiler->num_goals(); ++goal) {
    goals_.resize(global(static_cast<GoalId>(schema_.compiler->num_goals())));
    goals_[global(goal)] = make_program(goal);
    if (objects_.size() + arrays_.size() + goals_.size() > kMaxPrograms) {
      throw Error(ErrorCode::capacity, "a schema needs more than max_items = {} parts", kMaxPrograms);
    }
  }
  goals_.resize(global(static_cast<GoalId>(schema_.compiler->num_goals())));
  compute_min_depths(schema_.first_goal);
  close_objects(schema_.first_goal, first_object);
  for (size_t i = first_object; i < objects_.size(); ++i) drop_unsatisfiable(objects_[i]);
  for (GoalId goal = schema_.first_goal; goal < goals_.size(); ++goal) add_openings(goals_[goal]);
  schema_.compiler.reset();
  return schema_.first_goal + root;
}

JsonMachine::GoalProgram JsonMachine::make_program(GoalId goal) {
  const Shape shape = schema_.compiler->shape(goal);
  GoalProgram program;
  program.strings = shape.strings;
  std::vector<LanguageId> plain = {shape.numbers};
  if (shape.null) plain.push_back(languages_.text("null"));
  if (shape.truth) plain.push_back(languages_.text("true"));
  if (shape.lie) plain.push_back(languages_.text("false"));
  program.numbers = languages_.any_of(std::move(plain));
  const ByteStateId lexemes[] = {automaton_.start(shape.strings, Spelling::json_string),
                                 automaton_.start(program.numbers, Spelling::utf8)};
  for (const ByteStateId state : lexemes) {
    if (state != ByteAutomaton::kDead) program.lexemes.push_back(state);
  }
  for (const ArrayTerm& term : shape.arrays) program.arrays.push_back(add_array(term));
  for (const ObjectTerm& term : shape.objects) program.objects.push_back(add_object(term));
  return program;
}

uint32_t JsonMachine::add_object(const ObjectTerm& term) {
  ObjectProgram program;
  std::vector<uint32_t> names;
  const auto note = [&names](uint32_t name) {
    if (name != kNoName && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  for (const uint32_t name : term.declared.order) note(name);
  for (const KeyRule& rule : term.rules) note(rule.name);
  for (const KeyRule& rule : term.obligations) note(rule.name);
  for (const Implication& implication : term.implications) {
    note(implication.name);
    note(implication.needed);
  }
  const auto bit = [&names](uint32_t name) {
    return static_cast<uint32_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  program.num_names = static_cast<uint32_t>(names.size());
  program.min = term.min;
  program.max = term.max;
  for (const KeyRule& rule : term.obligations) {
    if (rule.name != kNoName) program.required.push_back(bit(rule.name));
  }
  std::sort(program.required.begin(), program.required.end());
  program.in_order = schema_.form.in_order;
  program.is_closed = term.declared.names && !term.declared.others;
  for (const Implication& implication : term.implications) {
    program.implications.push_back({bit(implication.name), bit(implication.needed)});
  }
  add_named_classes(term, names, program);
  add_other_classes(term, names, program);
  objects_.push_back(std::move(program));
  Facts facts(kSeen + (names.size() + 63) / 64 + (objects_.back().distinct() ? 1 : 0));
  facts[kTerm] = objects_.size() - 1;
  return facts_.number_of(std::move(facts));
}

void JsonMachine::add_named_classes(const ObjectTerm& term, const std::vector<uint32_t>& names,
                                    ObjectProgram& program) {
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = schema_.compiler->name(names[i]);
    GoalId goal = kAnyValue;
    for (const KeyRule& rule : term.rules) {
      const bool matches =
          rule.name == names[i] || (rule.name == kNoName && languages_.contains(rule.keys, name));
      if (matches) goal = both(goal, rule.goal);
    }
    std::vector<size_t> open;  // obligations that the member may fulfil
    size_t other_idx = 0;
    for (const KeyRule& rule : term.obligations) {
      if (rule.name == names[i]) goal = both(goal, rule.goal);
      if (rule.name == kNoName && languages_.contains(rule.keys, name)) open.push_back(other_idx);
      if (rule.name == kNoName) ++other_idx;
    }
    KeyClass key;
    key.key = automaton_.start(schema_.compiler->name_language(names[i]), Spelling::json_string);
    key.name = static_cast<uint32_t>(i);
    key.options = options_of(term, goal, open);
    program.classes.push_back(std::move(key));
  }
}

// Adds classes for all keys that the term does not name, split by the rules and obligations that they match.
void JsonMachine::add_other_classes(const ObjectTerm& term, const std::vector<uint32_t>& names,
                                    ObjectProgram& program) {
  struct Part {
    LanguageId keys;
    GoalId goal;
    std::vector<size_t> open;
    bool is_declared = false;
  };
  std::vector<LanguageId> texts;
  texts.reserve(names.size());
  for (const uint32_t name : names) texts.push_back(schema_.compiler->name_language(name));
  std::vector<Part> parts = {{languages_.complement(languages_.any_of(std::move(texts))), kAnyValue, {}}};
  const auto split = [&](LanguageId keys, const auto& mark) {
    std::vector<Part> next;
    for (Part& part : parts) {
      Part inside = part;
      inside.keys = languages_.all_of({part.keys, keys});
      mark(inside);
      part.keys = languages_.all_of({part.keys, languages_.complement(keys)});
      if (inside.goal != kNoValue && !languages_.is_empty(inside.keys)) next.push_back(std::move(inside));
      if (!languages_.is_empty(part.keys)) next.push_back(std::move(part));
    }
    if (next.size() > kMaxKeyClasses) {
      throw Error(ErrorCode::capacity,
                  "a schema has more than max_key_classes = {} kinds of keys in one object", kMaxKeyClasses);
    }
    parts = std::move(next);
  };
  for (const KeyRule& rule : term.rules) {
    if (rule.name == kNoName) split(rule.keys, [&](Part& part) { part.goal = both(part.goal, rule.goal); });
  }
  size_t other_idx = 0;
  for (const KeyRule& rule : term.obligations) {
    if (rule.name != kNoName) continue;
    if (other_idx >= kMaxObligations)
      throw Error(ErrorCode::capacity,
                  "a schema has more than {} conditions on unnamed members in one object", kMaxObligations);
    split(rule.keys, [&](Part& part) { part.open.push_back(other_idx); });
    program.obligations |= uint64_t{1} << other_idx++;
  }
  if (program.is_closed) {
    for (const LanguageId keys : term.declared.patterns)
      split(keys, [](Part& part) { part.is_declared = true; });
  }
  for (const Part& part : parts) {
    KeyClass key;
    key.key = automaton_.start(part.keys, Spelling::json_string);
    key.keys = part.keys;
    key.is_extra = !part.is_declared;
    key.options = options_of(term, part.goal, part.open);
    if (key.key != ByteAutomaton::kDead) program.classes.push_back(std::move(key));
  }
}

std::vector<JsonMachine::MemberOption> JsonMachine::options_of(const ObjectTerm& term, GoalId goal,
                                                               const std::vector<size_t>& obligations) {
  std::vector<GoalId> goals;  // of the obligations without a name
  for (const KeyRule& rule : term.obligations) {
    if (rule.name == kNoName) goals.push_back(rule.goal);
  }
  std::vector<MemberOption> options = {{goal, 0}};
  for (const size_t idx : obligations) {
    const size_t num_options = options.size();
    for (size_t i = 0; i < num_options && options.size() < 64; ++i) {
      const GoalId met = both(options[i].goal, goals[idx]);
      const uint64_t fulfils = options[i].fulfils | uint64_t{1} << idx;
      if (met == options[i].goal) {
        options[i].fulfils = fulfils;
      } else {
        options.push_back({met, fulfils});
      }
    }
  }
  for (MemberOption& option : options) option.goal = global(option.goal);
  return options;
}

uint32_t JsonMachine::add_array(const ArrayTerm& term) {
  if (term.counts.size() > kMaxCounts) {
    throw Error(ErrorCode::capacity,
                "a schema has more than max_counts = {} \"contains\" conditions in one array", kMaxCounts);
  }
  ArrayProgram program;
  program.min = term.min;
  program.max = term.max;
  program.unique = term.unique;
  auto num_entries = static_cast<uint32_t>(term.prefix.size() + 1);
  for (const ItemCount& count : term.counts) {
    program.counts.push_back({count.from, count.min, count.max});
    num_entries = std::max(num_entries, count.from + 1);
  }
  for (uint32_t i = 0; i < num_entries; ++i) add_item_options(term, i, program.options.emplace_back());
  arrays_.push_back(std::move(program));
  Facts facts(kCounts + term.counts.size() + (term.unique ? 1 : 0));
  facts[kTerm] = arrays_.size() - 1;
  return facts_.number_of(std::move(facts));
}

void JsonMachine::add_item_options(const ArrayTerm& term, uint32_t idx, std::vector<ItemOption>& options) {
  options.push_back({idx < term.prefix.size() ? term.prefix[idx] : term.rest, 0});
  for (size_t c = 0; c < term.counts.size(); ++c) {
    const ItemCount& count = term.counts[c];
    if (idx < count.from) continue;
    std::vector<ItemOption> next;
    for (const ItemOption& option : options) {
      next.push_back({both(option.goal, count.goal), option.counted | 1U << c});
      next.push_back(
          {count.max == kNoMaximum ? option.goal : both(option.goal, count.other), option.counted});
    }
    options = std::move(next);
  }
  for (ItemOption& option : options) option.goal = global(option.goal);
}

// Computes the minimum nesting depth of a value for each goal, or none if no finite value satisfies it.
// Starts at the leaves and repeats until nothing changes.
void JsonMachine::compute_min_depths(GoalId first) {
  min_depths_.resize(goals_.size(), kNoMaximum);
  for (bool changed = true; changed;) {
    changed = false;
    for (GoalId goal = first; goal < goals_.size(); ++goal) {
      const uint32_t rank = rank_of(goals_[goal]);
      changed = changed || rank < min_depths_[goal];
      min_depths_[goal] = std::min(min_depths_[goal], rank);
    }
  }
}

uint32_t JsonMachine::rank_of(const GoalProgram& program) const {
  if (!program.lexemes.empty()) return 1;
  uint32_t least = kNoMaximum;
  for (const uint32_t facts : program.objects) least = std::min(least, rank_of(program_of(facts)));
  for (const uint32_t facts : program.arrays) least = std::min(least, rank_of(arrays_[facts_[facts][kTerm]]));
  return least;
}

uint32_t JsonMachine::rank_of(const KeyClass& key) const {
  uint32_t least = kNoMaximum;
  for (const MemberOption& option : key.options) least = std::min(least, min_depths_[option.goal]);
  return least;
}

uint32_t JsonMachine::rank_of(const ObjectProgram& program) const {
  uint32_t most = 0;
  uint64_t open = program.obligations;
  size_t num_members = 0;
  bool others = false;
  std::vector<uint32_t> by_name(program.num_names, kNoMaximum);
  for (const KeyClass& key : program.classes) {
    const uint32_t rank = rank_of(key);
    if (rank == kNoMaximum || (program.is_closed && key.name == kNoName && key.is_extra)) continue;
    if (key.name != kNoName) by_name[key.name] = rank;
    others = others || key.name == kNoName;
    ++num_members;
    for (const MemberOption& option : key.options) {
      if (min_depths_[option.goal] == kNoMaximum || (option.fulfils & open) == 0) continue;
      open &= ~option.fulfils;
      most = std::max(most, min_depths_[option.goal]);
    }
  }
  if (open != 0 || (!others && num_members < program.min)) return kNoMaximum;
  if (program.required.size() > program.max) return kNoMaximum;
  for (const uint32_t name : program.required) {
    if (by_name[name] == kNoMaximum) return kNoMaximum;
    most = std::max(most, by_name[name]);
  }
  if (program.obligations != 0 && program.max == 0) return kNoMaximum;
  return most + 1;
}

uint32_t JsonMachine::rank_of(const std::vector<ItemOption>& options) const {
  uint32_t least = kNoMaximum;
  for (const ItemOption& option : options) least = std::min(least, min_depths_[option.goal]);
  return least;
}

uint32_t JsonMachine::rank_of(const ArrayProgram& program) const {
  uint32_t most = 0;
  for (uint32_t i = 0; i < program.min && i < program.options.size(); ++i) {
    const uint32_t rank = rank_of(program.options[i]);
    if (rank == kNoMaximum) return kNoMaximum;
    most = std::max(most, rank);
  }
  for (size_t c = 0; c < program.counts.size(); ++c) {
    if (program.counts[c].min == 0) continue;
    if (program.max != kNoMaximum && program.max < program.counts[c].from + program.counts[c].min)
      return kNoMaximum;
    uint32_t least = kNoMaximum;
    for (const std::vector<ItemOption>& options : program.options) {
      for (const ItemOption& option : options) {
        if ((option.counted >> c & 1) != 0) least = std::min(least, min_depths_[option.goal]);
      }
    }
    if (least == kNoMaximum) return kNoMaximum;
    most = std::max(most, least);
  }
  return most + 1;
}

// Closes objects to members that their schema does not name, unless nothing would satisfy a goal then. Called
// with the minimum depths of closed objects. A goal without a value opens its objects; goals with the
// smallest depth come first, so that a goal opens only if opening the goals inside of it does not suffice.
void JsonMachine::close_objects(GoalId first_goal, size_t first_object) {
  std::vector<size_t> closed;
  for (size_t i = first_object; i < objects_.size(); ++i) {
    if (objects_[i].is_closed) closed.push_back(i);
  }
  const auto set_closed = [&](bool is_closed) {
    for (const size_t idx : closed) objects_[idx].is_closed = is_closed;
  };
  std::vector<uint32_t> closed_depths = min_depths_;
  set_closed(false);
  compute_min_depths(first_goal);
  const std::vector<uint32_t> open_depths = std::exchange(min_depths_, std::move(closed_depths));
  set_closed(true);
  for (;;) {
    uint32_t least = kNoMaximum;
    for (GoalId goal = first_goal; goal < goals_.size(); ++goal) {
      if (min_depths_[goal] == kNoMaximum) least = std::min(least, open_depths[goal]);
    }
    if (least == kNoMaximum) break;
    for (GoalId goal = first_goal; goal < goals_.size(); ++goal) {
      if (min_depths_[goal] != kNoMaximum || open_depths[goal] != least) continue;
      for (const uint32_t facts : goals_[goal].objects) objects_[facts_[facts][kTerm]].is_closed = false;
    }
    compute_min_depths(first_goal);
  }
  for (const size_t idx : closed) {
    if (!objects_[idx].is_closed) continue;
    std::erase_if(objects_[idx].classes,
                  [](const KeyClass& key) { return key.name == kNoName && key.is_extra; });
  }
}

// Removes members without a possible value, and members that require such a member.
void JsonMachine::drop_unsatisfiable(ObjectProgram& program) const {
  for (KeyClass& key : program.classes) {
    std::erase_if(key.options,
                  [this](const MemberOption& option) { return min_depths_[option.goal] == kNoMaximum; });
  }
  std::vector<bool> can_come(program.num_names);
  for (const KeyClass& key : program.classes) {
    if (key.name != kNoName) can_come[key.name] = !key.options.empty();
  }
  const auto requires_unsatisfiable = [&](const KeyClass& key) {
    return std::any_of(program.implications.begin(), program.implications.end(),
                       [&](const Implication& implication) {
                         return implication.name == key.name && !can_come[implication.needed];
                       });
  };
  std::erase_if(program.classes,
                [&](const KeyClass& key) { return key.options.empty() || requires_unsatisfiable(key); });
}

// Adds the openings of a goal's values, for terms that can be satisfied. Objects whose names must differ get
// an opening each.
void JsonMachine::add_openings(GoalProgram& program) {
  Alternatives together;
  for (const uint32_t facts : program.objects) {
    const ObjectProgram& object = program_of(facts);
    if (rank_of(object) == kNoMaximum) continue;
    if (!object.distinct()) {
      together.push_back(facts);
      continue;
    }
    program.openings.push_back({marks_.open_object, StackOp::distinct_first, number_of({facts})});
  }
  if (!together.empty()) {
    program.openings.push_back({marks_.open_object, StackOp::object_first, number_of(std::move(together))});
  }
  for (const uint32_t facts : program.arrays) {
    const ArrayProgram& array = arrays_[facts_[facts][kTerm]];
    if (rank_of(array) == kNoMaximum) continue;
    const StackOp op = array.unique ? StackOp::unique_first : StackOp::array_first;
    program.openings.push_back({marks_.open_array, op, facts});
  }
}

uint32_t JsonMachine::number_of(Alternatives alternatives) {
  std::sort(alternatives.begin(), alternatives.end());
  alternatives.erase(std::unique(alternatives.begin(), alternatives.end()), alternatives.end());
  const size_t num_alternatives = alternatives.size();
  const uint32_t last = alternatives_.size();
  const uint32_t number = alternatives_.number_of(std::move(alternatives));
  if (number == last) stacks_.hold(num_alternatives);
  return number;
}

void JsonMachine::add_way(ByteStateId state, StackId stack, Closure& closure) const {
  if (state != ByteAutomaton::kDead) closure.ways.push_back({state, stack});
}

void JsonMachine::expand(const StackNode& node, Closure& closure, std::vector<StackId>& more) {
  switch (node.op) {
    case StackOp::value:
      return expand_value(node.a, node.next, closure);
    case StackOp::member_value:
      return expand_member(node, closure);
    case StackOp::object_first:
    case StackOp::object_key:
    case StackOp::object_after:
    case StackOp::distinct_first:
    case StackOp::distinct_key:
    case StackOp::distinct_first_at:
    case StackOp::distinct_key_at:
      return expand_object(node, closure);
    case StackOp::unique_done:
    case StackOp::distinct_done:
      more.push_back(node.next);
      return;
    default:
      return expand_array(node, closure);
  }
}

void JsonMachine::expand_value(GoalId goal, StackId next, Closure& closure) {
  const GoalProgram& program = goals_[goal];
  for (const ByteStateId state : program.lexemes) add_way(state, next, closure);
  const uint64_t depth = stacks_.at(next).depth + uint64_t{3} * std::min(min_depths_[goal], 1U << 20);
  if (depth > kMaxDepth) {
    closure.is_cut = closure.is_cut || !program.objects.empty() || !program.arrays.empty();
    return;
  }
  for (const Opening& opening : program.openings)
    add_way(opening.mark, stacks_.push(opening.op, opening.a, 0, next), closure);
}

void JsonMachine::expand_object(const StackNode& node, Closure& closure) {
  const Alternatives& alternatives = alternatives_[node.a];
  const auto any = [&](const auto& holds) {
    return std::any_of(alternatives.begin(), alternatives.end(),
                       [&](uint32_t facts) { return holds(program_of(facts), facts_[facts]); });
  };
  const bool first = node.op == StackOp::object_first || node.op == StackOp::distinct_first ||
                     node.op == StackOp::distinct_first_at;
  if (!first && node.op != StackOp::object_after) return add_keys(node, closure);
  const auto closes = [](const auto&... object) { return may_close(object...); };
  if (any(closes)) add_way(first ? marks_.close_object_now : marks_.close_object, node.next, closure);
  if (first) return add_keys(node, closure);
  const auto goes_on = [this](const auto&... object) { return may_add_any(object...); };
  if (!any(goes_on)) return;
  const StackOp op = are_distinct(alternatives) ? StackOp::distinct_key : StackOp::object_key;
  add_way(marks_.comma, stacks_.push(op, node.a, 0, node.next), closure);
}

// Reads each key once for all alternatives that contain it. The states after the member are computed later,
// because only one of many keys comes.
void JsonMachine::add_keys(const StackNode& node, Closure& closure) {
  std::unordered_set<ByteStateId> keys;
  for (const uint32_t number : alternatives_[node.a]) {
    const Facts& facts = facts_[number];
    const ObjectProgram& program = program_of(number);
    for (const KeyClass& key : program.classes) {
      if (keys.count(key.key) != 0 || !may_add(program, facts, key)) continue;
      keys.insert(key.key);
      const StackId value = stacks_.push(StackOp::member_value, node.a, key.key, node.next);
      if (key.name != kNoName || !program.distinct()) {
        add_way(key.key, value, closure);
        continue;
      }
      add_way(automaton_.start(unused(key.keys, facts, true), Spelling::json_string),
              stacks_.push(StackOp::distinct_done, 0, node.b, value), closure);
    }
  }
}

// Alternatives with the same goal for the value continue together. If names must differ, there is only one
// alternative.
void JsonMachine::expand_member(const StackNode& node, Closure& closure) {
  std::map<GoalId, Alternatives> by_goal;
  for (const uint32_t number : alternatives_[node.a]) {
    const Facts& facts = facts_[number];
    const ObjectProgram& program = program_of(number);
    const auto key = std::find_if(program.classes.begin(), program.classes.end(),
                                  [&node](const KeyClass& any) { return any.key == node.b; });
    if (key == program.classes.end()) continue;
    for (const MemberOption& option : key->options) {
      const Member member{*key, option};
      if (!may_come(program, facts, member)) continue;
      by_goal[option.goal].push_back(facts_.number_of(with_member(program, facts, member)));
    }
  }
  const auto add = [&](GoalId goal, Alternatives then) {
    const StackId after = stacks_.push(StackOp::object_after, number_of(std::move(then)), 0, node.next);
    add_way(marks_.colon, stacks_.push(StackOp::value, goal, 0, after), closure);
  };
  for (auto& [goal, then] : by_goal) {
    if (!are_distinct(alternatives_[node.a])) {
      add(goal, std::move(then));
      continue;
    }
    for (const uint32_t alone : then) add(goal, {alone});
  }
}

bool JsonMachine::may_close(const ArrayProgram& program, const Facts& facts) {
  if (facts[kCount] < program.min) return false;
  for (size_t c = 0; c < program.counts.size(); ++c) {
    if (facts[kCounts + c] < program.counts[c].min) return false;
  }
  return true;
}

std::vector<JsonMachine::ItemOption> JsonMachine::item_options(const ArrayProgram& program,
                                                               const Facts& facts) {
  std::vector<ItemOption> allowed;
  if (program.max != kNoMaximum && facts[kCount] >= program.max) return allowed;
  const size_t idx = std::min<size_t>(facts[kCount], program.options.size() - 1);
  for (const ItemOption& option : program.options[idx]) {
    bool fits = min_depths_[option.goal] != kNoMaximum;
    uint64_t still_needed = 0;
    for (size_t c = 0; c < program.counts.size(); ++c) {
      const CountProgram& count = program.counts[c];
      const bool counted = (option.counted >> c & 1) != 0;
      if (counted && count.max == kNoMaximum && facts[kCounts + c] >= count.min) fits = false;
      if (counted && facts[kCounts + c] >= count.max) fits = false;
      const uint64_t reached = facts[kCounts + c] + (counted ? 1 : 0);
      if (reached < count.min) still_needed = std::max(still_needed, count.min - reached);
    }
    if (program.max != kNoMaximum && facts[kCount] + 1 + still_needed > program.max) fits = false;
    if (fits && program.unique) fits = has_unused(option.goal, facts);
    if (fits) allowed.push_back(option);
  }
  return allowed;
}

void JsonMachine::expand_array(const StackNode& node, Closure& closure) {
  const Facts facts = facts_[node.a];
  const ArrayProgram& program = arrays_[facts[kTerm]];
  const bool first = node.op == StackOp::array_first || node.op == StackOp::unique_first ||
                     node.op == StackOp::unique_first_at;
  const bool after = node.op == StackOp::array_after;
  if ((first || after) && may_close(program, facts))
    add_way(first ? marks_.close_array_now : marks_.close_array, node.next, closure);
  if (!after) return add_items(node, closure);
  if (item_options(program, facts).empty()) return;
  const StackOp op = program.unique ? StackOp::unique_item : StackOp::array_item;
  add_way(marks_.comma, stacks_.push(op, node.a, 0, node.next), closure);
}

void JsonMachine::add_items(const StackNode& node, Closure& closure) {
  const Facts facts = facts_[node.a];
  const ArrayProgram& program = arrays_[facts[kTerm]];
  uint64_t last_count = std::max<uint64_t>(program.min, program.options.size() - 1);
  if (program.max != kNoMaximum) last_count = program.max;
  for (const ItemOption& option : item_options(program, facts)) {
    Facts then = facts;
    then[kCount] = std::min(then[kCount] + 1, last_count);
    for (size_t c = 0; c < program.counts.size(); ++c) then[kCounts + c] += option.counted >> c & 1;
    const uint32_t then_id = facts_.number_of(std::move(then));
    if (!program.unique) {
      expand_value(option.goal, stacks_.push(StackOp::array_after, then_id, 0, node.next), closure);
      continue;
    }
    expand_unused(option.goal, facts, stacks_.push(StackOp::unique_done, then_id, node.b, node.next),
                  closure);
  }
}

// Removes used items from a language. Not needed for a language that contains almost all texts: it has an
// unused text after every prefix, so a used item is detected when it ends.
LanguageId JsonMachine::unused(LanguageId language, const Facts& facts, bool strings) {
  if (strings && languages_.is_cofinite(language)) return language;
  std::vector<LanguageId> parts = {language};
  for (const uint32_t number : used_.of(static_cast<uint32_t>(facts.back()))) {
    const std::string& item = used_.text(number);
    const bool is_string = item[0] == '"';
    if (is_string != strings || item[0] == '[' || item[0] == '{') continue;
    if (is_string) {
      parts.push_back(languages_.complement(languages_.text(*parse_json(item, "item").as_string())));
    } else if (item[0] == 'n' || item[0] == 't' || item[0] == 'f') {
      parts.push_back(languages_.complement(languages_.text(item)));
    } else {
      const Decimal value = parse_decimal(item);
      const LanguageId words =
          languages_.any_of({languages_.text("null"), languages_.text("true"), languages_.text("false")});
      parts.push_back(languages_.any_of({words, languages_.number(NumberTest(Relation::less, value)),
                                         languages_.number(NumberTest(Relation::more, value))}));
    }
  }
  return languages_.all_of(std::move(parts));
}

bool JsonMachine::has_unused(GoalId goal, const Facts& facts) {
  const GoalProgram& program = goals_[goal];
  const auto list = static_cast<uint32_t>(facts.back());
  const auto is_unused_object = [&](uint32_t object) {
    return !program_of(object).classes.empty() || !used_.has(list, "{}");
  };
  const auto is_unused_array = [&](uint32_t array) {
    return arrays_[facts_[array][kTerm]].max != 0 || !used_.has(list, "[]");
  };
  if (std::any_of(program.objects.begin(), program.objects.end(), is_unused_object) ||
      std::any_of(program.arrays.begin(), program.arrays.end(), is_unused_array))
    return true;
  return !languages_.is_empty(unused(program.strings, facts, true)) ||
         !languages_.is_empty(unused(program.numbers, facts, false));
}

void JsonMachine::expand_unused(GoalId goal, const Facts& facts, StackId next, Closure& closure) {
  const GoalProgram& program = goals_[goal];
  add_way(automaton_.start(unused(program.strings, facts, true), Spelling::json_string), next, closure);
  add_way(automaton_.start(unused(program.numbers, facts, false), Spelling::utf8), next, closure);
  Closure all;
  expand_value(goal, next, all);
  closure.is_cut = closure.is_cut || all.is_cut;
  for (const Way& way : all.ways) {
    if (way.state == marks_.open_object || way.state == marks_.open_array) closure.ways.push_back(way);
  }
}

bool JsonMachine::use(Facts& facts, const std::string& item) {
  const auto list = static_cast<uint32_t>(facts.back());
  if (used_.has(list, item)) return false;
  facts.back() = used_.with(list, item);
  return true;
}

StackId JsonMachine::settle(StackId stack, std::string_view text, EndedItems& items) {
  const StackNode node = stacks_.at(stack);
  const auto begin_here = [&](StackOp op) {
    return stacks_.push(op, node.a, static_cast<uint32_t>(text.size()), node.next);
  };
  if (node.op == StackOp::unique_first) return begin_here(StackOp::unique_first_at);
  if (node.op == StackOp::unique_item) return begin_here(StackOp::unique_item_at);
  if (node.op == StackOp::distinct_first) return begin_here(StackOp::distinct_first_at);
  if (node.op == StackOp::distinct_key) return begin_here(StackOp::distinct_key_at);
  if (!depends_on_text(node.op)) return stack;
  const auto [item, is_new] = items.try_emplace(node.b);
  if (is_new) item->second = canonical_item(text.substr(node.b));
  const bool is_name = node.op == StackOp::distinct_done;
  const StackNode member = is_name ? stacks_.at(node.next) : node;
  Facts facts = facts_[is_name ? alternatives_[member.a][0] : member.a];
  if (!use(facts, item->second)) return kNoStack;
  const uint32_t then = facts_.number_of(std::move(facts));
  if (is_name) return stacks_.push(StackOp::member_value, number_of({then}), member.b, member.next);
  return stacks_.push(StackOp::array_after, then, 0, node.next);
}

}  // namespace quire

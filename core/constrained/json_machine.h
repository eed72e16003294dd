// Runs a JSON Schema as a push-down automaton: stacks and lexemes of the JSON values that satisfy it. A form
// decides the order of members, whether objects are closed, and the white space.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/constrained/byte_automaton.h"
#include "core/constrained/numbered.h"
#include "core/constrained/schema_compiler.h"
#include "core/constrained/stack_store.h"
#include "core/constrained/used_items.h"

namespace quire {

// The schemas of a constraint, compiled, and the expansion of their stacks. Not thread-safe.
class JsonMachine {
 public:
  // Maximum depth of a stack; nothing more is opened at this depth.
  static constexpr uint32_t kMaxDepth = 600;

  JsonMachine(LanguageStore& languages, ByteAutomaton& automaton, StackStore& stacks, const JsonForm& form);

  // Compiles the part of a document that a reference names, or the whole one; returns the goal of its values.
  GoalId add(const JsonValue& document, std::string_view reference);

  void expand(const StackNode& node, Closure& closure, std::vector<StackId>& more);
  // Resolves a stack that depends on the position in the text, after reading `text`. Returns kNoStack if the
  // text cannot continue this way.
  static constexpr StackId kNoStack = UINT32_MAX;
  static bool depends_on_text(StackOp op) {
    return op == StackOp::unique_first || op == StackOp::unique_item || op == StackOp::unique_done ||
           op == StackOp::distinct_first || op == StackOp::distinct_key || op == StackOp::distinct_done;
  }
  // Returns whether every stack with this operation on top can continue. A key is read only if its member may
  // come.
  static bool can_always_continue(StackOp op) { return op == StackOp::member_value; }
  // The canonical forms of items and names that end at the current position, by where they begin. Each is
  // read only once.
  using EndedItems = std::unordered_map<uint32_t, std::string>;
  StackId settle(StackId stack, std::string_view text, EndedItems& items);
  // Returns the memory of the facts that texts have added.
  size_t held_bytes() const { return facts_.held_bytes() + alternatives_.held_bytes() + used_.held_bytes(); }

 private:
  struct MemberOption {
    GoalId goal = kAnyValue;
    uint64_t fulfils = 0;  // obligations without a name, as bits
  };
  struct KeyClass {
    ByteStateId key = 0;
    uint32_t name = kNoName;  // index of its bit in Facts
    LanguageId keys = 0;      // of a class without a name
    bool is_extra = false;    // the schema does not name the keys: none comes in a closed object
    std::vector<MemberOption> options;
  };
  struct Member {
    const KeyClass& key;
    const MemberOption& option;
  };
  struct ObjectProgram {
    std::vector<KeyClass> classes;
    std::vector<uint32_t> required;  // indexes of names, sorted
    std::vector<Implication> implications;
    uint32_t num_names = 0;
    uint64_t obligations = 0;
    uint32_t min = 0;
    uint32_t max = kNoMaximum;
    bool in_order = false;  // members come in the order of their names, the others last
    bool is_closed = false;
    // Whether names must differ, because a duplicate name could count as two members or undo a fulfilled
    // obligation. Requiring it for all objects would make masks three times as slow, because no two positions
    // in a text would be equal.
    bool distinct() const { return min > 1 || obligations != 0; }
  };
  struct Opening {
    ByteStateId mark = 0;
    StackOp op = StackOp::end;
    uint32_t a = 0;  // operand of `op`
  };
  struct GoalProgram {
    bool ready = false;
    bool literals[3] = {false, false, false};  // null, true, false
    LanguageId strings = 0;
    LanguageId numbers = 0;
    std::vector<ByteStateId> lexemes;
    std::vector<uint32_t> arrays;  // initial facts of its array terms
    std::vector<uint32_t> objects;
    std::vector<Opening> openings;
  };
  struct ItemOption {
    GoalId goal = kAnyValue;
    uint32_t counted = 0;  // bits of the counts that it adds to
  };
  struct CountProgram {
    uint32_t from = 0;
    uint32_t min = 0;
    uint32_t max = kNoMaximum;
  };
  struct ArrayProgram {
    std::vector<std::vector<ItemOption>> options;  // by item index; the last entry applies to all later items
    std::vector<CountProgram> counts;
    uint32_t min = 0;
    uint32_t max = kNoMaximum;
    bool unique = false;
  };
  // State of an object or array: term, count, then for objects the fulfilled obligations and the bits of
  // names seen, for arrays the counts. If items or names must differ, the last entry is the number of the
  // list of used ones.
  using Facts = std::vector<uint64_t>;
  static constexpr size_t kTerm = 0;  // indexes into Facts
  static constexpr size_t kCount = 1;
  static constexpr size_t kFulfilled = 2;  // objects only
  static constexpr size_t kSeen = 3;
  static constexpr size_t kCounts = 2;  // arrays only
  // A set of alternatives: numbers of the facts of the object terms that the text may still be. Sorted, never
  // empty.
  using Alternatives = std::vector<uint32_t>;

  // The form of all schemas, and the schema that is being compiled.
  struct SchemaInWork {
    JsonForm form;
    std::unique_ptr<SchemaCompiler> compiler;  // null if there is none
    GoalId first_goal = 0;
  };
  // States of brackets and separators, with the white space around them.
  struct Marks {
    ByteStateId colon, comma, open_object, open_array;
    ByteStateId close_object, close_array;
    ByteStateId close_object_now, close_array_now;  // directly after the opening bracket
  };

  Marks make_marks() const;
  void prepare(GoalId goal);
  GoalProgram make_program(GoalId goal);
  uint32_t add_object(const ObjectTerm& term);
  void add_named_classes(const ObjectTerm& term, const std::vector<uint32_t>& names, ObjectProgram& program);
  void add_other_classes(const ObjectTerm& term, const std::vector<uint32_t>& names, ObjectProgram& program);
  std::vector<MemberOption> options_of(const ObjectTerm& term, GoalId goal,
                                       const std::vector<size_t>& obligations);
  GoalId both(GoalId a, GoalId b) { return schema_.compiler->both(a, b); }
  GoalId global(GoalId goal) const { return schema_.first_goal + goal; }
  uint32_t add_array(const ArrayTerm& term);
  void compute_min_depths(GoalId first);
  uint32_t rank_of(const GoalProgram& program) const;
  uint32_t rank_of(const ObjectProgram& program) const;
  uint32_t rank_of(const ArrayProgram& program) const;
  uint32_t rank_of(const std::vector<ItemOption>& options) const;
  uint32_t rank_of(const KeyClass& key) const;

  void close_objects(GoalId first_goal, size_t first_object);
  void drop_unsatisfiable(ObjectProgram& program) const;
  void add_openings(GoalProgram& program);
  const ObjectProgram& program_of(uint32_t facts) const { return objects_[facts_[facts][0]]; }
  // Returns whether names must differ; then there is only one alternative.
  bool are_distinct(const Alternatives& alternatives) const { return program_of(alternatives[0]).distinct(); }
  uint32_t number_of(Alternatives alternatives);

  void expand_value(GoalId goal, StackId next, Closure& closure);
  void expand_unused(GoalId goal, const Facts& facts, StackId next, Closure& closure);
  void expand_object(const StackNode& node, Closure& closure);
  void expand_array(const StackNode& node, Closure& closure);
  void add_keys(const StackNode& node, Closure& closure);
  void expand_member(const StackNode& node, Closure& closure);
  // json_members.cpp: which members may come next.
  static Facts with_member(const ObjectProgram& program, Facts facts, const Member& member);
  static bool is_seen(const Facts& facts, uint32_t name);
  static bool may_close(const ObjectProgram& program, const Facts& facts);
  static bool may_come(const ObjectProgram& program, const Facts& facts, const Member& member);
  static bool may_add(const ObjectProgram& program, const Facts& facts, const KeyClass& key);
  static bool leaves_enough_members(const ObjectProgram& program, const Facts& facts, const Member& member);
  static bool keeps_order(const ObjectProgram& program, const Facts& facts, const KeyClass& key);
  static bool can_be_completed(const ObjectProgram& program, const Facts& facts);
  static bool can_come_later(const ObjectProgram& program, const Facts& facts, const KeyClass& key);
  static uint32_t place_in_order(const ObjectProgram& program, const Facts& facts);
  bool may_add_any(const ObjectProgram& program, const Facts& facts);
  static std::vector<bool> needed_names(const ObjectProgram& program, const Facts& facts);
  static uint32_t num_needed(const ObjectProgram& program, const Facts& facts);

  void add_items(const StackNode& node, Closure& closure);
  void add_way(ByteStateId state, StackId stack, Closure& closure) const;
  std::vector<ItemOption> item_options(const ArrayProgram& program, const Facts& facts);
  static bool may_close(const ArrayProgram& program, const Facts& facts);
  void add_item_options(const ArrayTerm& term, uint32_t idx, std::vector<ItemOption>& options);
  LanguageId unused(LanguageId language, const Facts& facts, bool strings);
  bool has_unused(GoalId goal, const Facts& facts);
  // Adds an item or a name to the used ones; returns false if it was used before.
  bool use(Facts& facts, const std::string& item);

  LanguageStore& languages_;
  ByteAutomaton& automaton_;
  StackStore& stacks_;
  SchemaInWork schema_;
  std::vector<GoalProgram> goals_;
  std::vector<uint32_t> min_depths_;  // minimum nesting depth of a value
  std::vector<ObjectProgram> objects_;
  std::vector<ArrayProgram> arrays_;
  Interner<Facts> facts_;
  Interner<Alternatives> alternatives_;
  UsedItems used_;
  const Marks marks_;
};

}  // namespace quire

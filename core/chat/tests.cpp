// The tests of chat templates: the words that can follow `is`.
#include <array>

#include "core/chat/compare.h"
#include "core/chat/methods.h"
#include "core/chat/operators.h"
#include "core/chat/parameters.h"
#include "core/chat/print.h"
#include "core/chat/unicode.h"

namespace quire::chat {
namespace {

using Question = bool (*)(const Value& value);

template <Question Ask>
Value ask(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value"}, 1);
  return Value(Ask(p[0]));
}

template <CompareOp Op>
Value compare(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "other"}, 2);
  return Value(apply_compare(machine, Op, p[0], p[1]));
}

bool is_boolean(const Value& value) {
  return value.is_boolean();
}
bool is_callable(const Value& value) {
  return value.as<Callable>() != nullptr;
}
bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_false(const Value& value) {
  return value.is_boolean() && !value.boolean();
}
bool is_true_itself(const Value& value) {
  return value.is_boolean() && value.boolean();
}
bool is_float(const Value& value) {
  return value.is_real();
}
bool is_integer(const Value& value) {
  return value.kind() == Kind::integer;
}
bool is_mapping(const Value& value) {
  return value.as<Dict>() != nullptr;
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_number(const Value& value) {
  return value.is_number();
}
bool is_sequence(const Value& value) {
  return length_of(value) >= 0 && value.as<DictView>() == nullptr;
}
bool is_string(const Value& value) {
  return value.is_text();
}
bool is_escaped(const Value& value) {
  return value.is_text() && value.text().is_markup();
}

template <bool (*Wanted)(uint32_t)>
Value has_case(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value"}, 1);
  return Value(has_only_case(str_of(machine, p[0]).text().bytes(), Wanted));
}

Value remainder_is(Machine& machine, const Value& value, const Value& divisor, int64_t wanted) {
  const Value remainder = apply_binary(machine, BinaryOp::modulo, value, divisor);
  return Value(equals(machine, remainder, Value(wanted)));
}

Value divisibleby(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "num"}, 2);
  return remainder_is(machine, p[0], p[1], 0);
}

template <int64_t Remainder>
Value parity(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value"}, 1);
  return remainder_is(machine, p[0], Value(int64_t{2}), Remainder);
}

Value sameas(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value", "other"}, 2);
  return Value(is_same(p[0], p[1]));
}

template <Builtin (*Find)(std::string_view)>
Value is_known(Machine& machine, Arguments& arguments) {
  const Parameters p(machine, arguments, {"value"}, 1);
  return Value(p[0].is_text() && Find(p[0].text().bytes()) != nullptr);
}

constexpr auto kEqual = compare<CompareOp::equal>;
constexpr auto kNotEqual = compare<CompareOp::not_equal>;
constexpr auto kLess = compare<CompareOp::less>;
constexpr auto kLessEqual = compare<CompareOp::less_equal>;
constexpr auto kGreater = compare<CompareOp::greater>;
constexpr auto kGreaterEqual = compare<CompareOp::greater_equal>;

constexpr std::array kTests = {
    NamedBuiltin{"!=", kNotEqual},
    NamedBuiltin{"<", kLess},
    NamedBuiltin{"<=", kLessEqual},
    NamedBuiltin{"==", kEqual},
    NamedBuiltin{">", kGreater},
    NamedBuiltin{">=", kGreaterEqual},
    NamedBuiltin{"boolean", ask<is_boolean>},
    NamedBuiltin{"callable", ask<is_callable>},
    NamedBuiltin{"defined", ask<is_defined>},
    NamedBuiltin{"divisibleby", divisibleby},
    NamedBuiltin{"eq", kEqual},
    NamedBuiltin{"equalto", kEqual},
    NamedBuiltin{"escaped", ask<is_escaped>},
    NamedBuiltin{"even", parity<0>},
    NamedBuiltin{"false", ask<is_false>},
    NamedBuiltin{"filter", is_known<find_filter>},
    NamedBuiltin{"float", ask<is_float>},
    NamedBuiltin{"ge", kGreaterEqual},
    NamedBuiltin{"greaterthan", kGreater},
    NamedBuiltin{"gt", kGreater},
    NamedBuiltin{"in", compare<CompareOp::in>},
    NamedBuiltin{"integer", ask<is_integer>},
    NamedBuiltin{"iterable", ask<is_iterable>},
    NamedBuiltin{"le", kLessEqual},
    NamedBuiltin{"lessthan", kLess},
    NamedBuiltin{"lower", has_case<is_lower>},
    NamedBuiltin{"lt", kLess},
    NamedBuiltin{"mapping", ask<is_mapping>},
    NamedBuiltin{"ne", kNotEqual},
    NamedBuiltin{"none", ask<is_none>},
    NamedBuiltin{"number", ask<is_number>},
    NamedBuiltin{"odd", parity<1>},
    NamedBuiltin{"sameas", sameas},
    NamedBuiltin{"sequence", ask<is_sequence>},
    NamedBuiltin{"string", ask<is_string>},
    NamedBuiltin{"test", is_known<find_test>},
    NamedBuiltin{"true", ask<is_true_itself>},
    NamedBuiltin{"undefined", ask<is_undefined>},
    NamedBuiltin{"upper", has_case<is_upper>},
};

}  // namespace

Builtin find_test(std::string_view name) {
  return find_named(kTests, name);
}

}  // namespace quire::chat

"""Converts the headers to a model for the languages: calls with typed parameters and results, settings, figures."""
import re
from dataclasses import dataclass, field

import interface

ACRONYMS = {"kv", "json", "gbnf", "io", "id", "bos", "eos", "fp8", "ok"}  # of names in Go
SHORT = {"int32_t": "int", "int64_t": "long", "uint64_t": "ulong", "double": "double"}
OUT = {"out_text": "text", "out_bytes": "bytes", "out_tokens": "tokens", "out_sizes": "sizes", "out_counts": "sizes", "out_values": "values"}
CALLBACKS = ("quire_log_fn", "quire_progress_fn")


def pascal(words):
    return "".join(word[:1].upper() + word[1:] for word in words.split("_"))


def camel(words):
    made = pascal(words)
    return made[:1].lower() + made[1:]


def go(words):
    return "".join(word.upper() if word in ACRONYMS else word[:1].upper() + word[1:] for word in words.split("_"))


@dataclass
class Value:
    """Parameter or result: its name, its kind, and its enum or class."""
    name: str
    kind: str
    of: str = ""
    nullable: bool = False  # an object that may be null
    has_default: bool = False  # in Java and C#: null means the default

    @property
    def may_be_null(self):
        return self.nullable or self.has_default


@dataclass
class Call:
    function: str
    name: str  # words joined by underscores
    comment: str
    owner: str  # type of the first parameter; empty if that is no handle
    parameters: list
    result: Value
    waits: bool


@dataclass
class Interface:
    enums: list = field(default_factory=list)  # (Enum, [(item, constant, comment)])
    calls: dict = field(default_factory=dict)  # by function


HANDLES = {item.ctype: item.name for item in interface.OBJECTS}
FILLED = {item.ctype: item.name for item in interface.SETTINGS}
SNAPSHOTS = {"quire_stats", "quire_plan", "quire_event", "quire_cancel"}


def enum_of(function, name, comment):
    for key, enum in interface.ENUM_OF.items():
        if key in (f"{function.name}.{name}", function.name, name):
            return enum
    named = re.findall(r"\bne of (QUIRE_\w+_)\*", comment)
    return next((e.name for e in interface.ENUMS if named and e.prefix == named[0]), "")


def is_yes_or_no(function, name):
    if {name, function.name} & interface.BOOLS:
        return True
    return bool(re.search(r": 1 or 0\b|\bReturns 1 if .*, otherwise 0\b", function.comment))


def integer(function, name, is_result):
    enum = enum_of(function, name, function.comment)
    if enum:
        return Value(name, "enum", enum)
    if name in interface.TOKENS or is_result and function.name in interface.TOKENS:
        return Value(name, "optional" if function.name in interface.OPTIONAL else "token")
    if is_result and re.search(r"Returns 1, or 0\b", function.comment) and function.name not in interface.BOOLS:
        return Value(name, "done")
    return Value(name, "bool" if is_yes_or_no(function, name) else "int")


def value(function, kind, name):
    if kind == "int32_t":
        return integer(function, name, False)
    if kind == "int64_t" and name.endswith("_ns"):
        return Value(name[:-3], "time")
    if kind in SHORT:
        return Value(name, SHORT[kind])
    has_default = f"{function.name}.{name}" in interface.NULL_IS_DEFAULT
    if kind.rstrip("*") in FILLED:
        return Value(name, "filled", FILLED[kind.rstrip("*")], has_default=has_default)
    if kind.rstrip("*") in HANDLES:
        return Value(name, "object", HANDLES[kind.rstrip("*")], f"{function.name}.{name}" in interface.NULLABLE, has_default)
    return Value(name, "other", kind)


def result(function, out):
    if out:
        kind = OUT[out]
        return Value("", "bytes" if function.name in interface.BYTES else kind)
    if function.result == "const char*":
        return Value("", "borrowed")
    if function.result == "int32_t" and "QUIRE_WAIT_FAILED on failure" in function.comment:
        return Value("", "waited")
    if function.result == "int32_t":
        changes = re.search(r"_(set|add|clear)_", function.name)
        own = next((key for key in interface.ENUM_OF if function.name.endswith("_" + key)), "")
        return Value("", "done") if changes else integer(function, own, True)
    if function.result == "int64_t" and function.name.endswith("_ns"):
        return Value("", "time")
    if function.result.rstrip("*") in HANDLES:
        return Value("", "object", HANDLES[function.result.rstrip("*")])
    return Value("", SHORT.get(function.result, "other"))


def shape(function):
    given = [(kind, name) for kind, name in function.parameters if name not in ("error", "out_len")]
    owner, parameters, out = "", [], ""
    if given and given[0][0].endswith("*") and not given[0][0].startswith("const") and "out_" not in given[0][1]:
        owner = given.pop(0)[0].rstrip("*")
    for kind, name in given:
        if name in OUT:
            out = name
        elif kind == "const char*":
            parameters.append(Value(name, "text"))
        elif kind == "const int32_t*":
            parameters.append(Value(name, "tokens"))
        elif name not in ("text_len", "num_tokens", "out_capacity", "timeout_ns", "cancel"):
            parameters.append(value(function, kind, name))
    waits = any(name == "timeout_ns" for _, name in given)
    if any(kind.startswith(CALLBACKS) for kind, _ in given):
        parameters = []
    name = interface.NAMES.get(function.name, function.name[len(owner) + 1:] if owner else function.name[6:])
    return Call(function.name, name.removesuffix("_ns"), function.comment, owner, parameters, result(function, out), waits)


def enums(constants):
    found = {}
    for constant in constants:
        prefixes = [enum.prefix for enum in interface.ENUMS if constant.name.startswith(enum.prefix)]
        if prefixes:
            prefix = max(prefixes, key=len)
            found.setdefault(prefix, []).append((constant.name[len(prefix):], constant.name, constant.comment))
            if not constant.comment and len(found[prefix]) > 1:
                found[prefix][-1] = (*found[prefix][-1][:2], constant.above)
        elif not constant.name.startswith(interface.NO_ENUM):
            raise SystemExit(f"bindings/generator/interface.py: no enum contains {constant.name}; add it to ENUMS or NO_ENUM")
    missing = [enum.prefix for enum in interface.ENUMS if enum.prefix not in found]
    if missing:
        raise SystemExit(f"bindings/generator/interface.py: no header declares {missing[0]}*; remove it from ENUMS")
    return [(enum, found[enum.prefix]) for enum in interface.ENUMS]


def read(functions, constants):
    made = Interface(enums(c for c in constants if c.header != "experimental.h"))
    for function in functions:
        if function.header != "experimental.h":
            made.calls[function.name] = shape(function)
    return made


@dataclass
class Naming:
    """Spelling of the C names in one language, for comments."""
    enum: object  # function of an Enum
    item: object  # function of an Enum and an item
    member: object  # function of a call and its name in words
    figure: int  # index of the figure name to use
    classes: dict  # names of classes that differ
    creator: int = 2  # index of the creator name to use
    null: str = "null"


def names_of(made, naming):
    """Returns {name in C: name in the language}."""
    names = {"NULL": naming.null} | {enum.prefix: naming.enum(enum) for enum, _ in made.enums}
    names.update({constant: naming.item(enum, item) for enum, items in made.enums for item, constant, _ in items})
    owners = {one.ctype: naming.classes.get(one.name, one.name) for one in interface.OBJECTS + interface.SETTINGS}
    filled = {one.ctype for one in interface.SETTINGS}
    for call in made.calls.values():
        if call.owner in owners:
            own = setting_name(call) if call.owner in filled else call.name
            created = interface.CREATORS.get(call.function)
            own = created[naming.creator] if created else own
            names[call.function] = f"{owners[call.owner]}.{naming.member(call, own)}"
    for figures in interface.FIGURES:
        for field_ in fields_of(made, figures):
            call = field_[2]
            names[call.function] = f"{figures.name}.{naming.member(call, field_[naming.figure])}"
    return names


def names_of_fields(made, spell):
    """Returns the names, in Go and C#, of settings that are fields of another name than their setter."""
    owners = {one.ctype: one for one in interface.SETTINGS}
    names = {}
    for call in made.calls.values():
        if call.owner not in owners:
            continue
        one = owners[call.owner]
        if call.function in interface.COLLECTED:
            names[call.function] = f"{one.name}.{interface.COLLECTED[call.function][0]}"
        elif len(call.parameters) > 1:
            names[call.function] = f"{one.name}.{spell(f'{setting_name(call)}_{call.parameters[0].name}')}"
        for group in one.groups:
            names.update((function, f"{group.name}.{field_}") for function, field_, _ in group.members)
    return names


def is_generated(call):
    """Returns true if a call becomes a method or a setting without manual code."""
    return not (call.function in interface.BY_HAND or call.function in interface.CREATORS or call.function in interface.SUBMITS
                or call.function in interface.STATICS or call.function == f"{call.owner}_free" or call.function.endswith("_create"))


def methods(made, ctype):
    """Returns the calls that become methods of an object, that is, all but figures."""
    figures = {getter for one in interface.FIGURES for getter in getters_of(one)}
    counts = {reader[3] for reader in interface.READERS}
    return [call for call in made.calls.values() if call.owner == ctype and is_generated(call)
            and call.function not in figures | counts]


def getters_of(figures):
    prefix = f"{figures.ctype}_{figures.prefix}"
    names = [prefix + name for name in figures.getters.split()]
    names += [prefix + getter for getter, _ in figures.fixed.values()]
    if figures.base:
        base = next(one for one in interface.FIGURES if one.name == figures.base)
        names += [prefix + name for name in base.getters.split()]
    return names + [f"{figures.ctype}_{part.count}" for part in figures.parts if part.count.startswith("num_")]


def fields_of(made, figures):
    """Yields (name in Go and C#, name in Java, call, kinds of events that have it) of each getter."""
    for getter in figures.getters.split():
        call = made.calls[f"{figures.ctype}_{figures.prefix}{getter}"]
        names = interface.FIGURE_NAMES.get(call.function, (getter.removesuffix("_ns"),) * 2)
        when = next((kinds for names_, kinds in figures.when.items() if getter in names_.split()), ())
        yield names[0], names[1], call, when


def ctype_of(name):
    """Returns the C type of a class."""
    return class_of(name).ctype


def creators(made, one):
    """Yields (call, class with the method or "", name in Go, name in Java and C#) of each creator that belongs to a
    class."""
    for function, (owner, in_go, elsewhere) in interface.CREATORS.items():
        call = made.calls[function]
        if owner == one.name or not owner and call.result.of == one.name:
            yield call, owner, in_go, elsewhere


def submits(one):
    """Returns (function, Submit) of each submit method of a class."""
    return [(function, submit) for function, submit in interface.SUBMITS.items() if submit.owner == one.name]


def filled_of(call):
    """Returns (parameter, its settings) of a call that takes only settings."""
    return [(value, next(one for one in interface.SETTINGS if one.name == value.of)) for value in call.parameters]


def statics(made, one):
    """Yields (call, name in Go, name in Java and C#) of the static methods of a class."""
    for function, (owner, in_go, elsewhere) in interface.STATICS.items():
        if owner == one.name:
            yield made.calls[function], in_go, elsewhere


def is_snapshot(made, reader):
    """Returns true if a reader takes a snapshot."""
    return reader in made.calls and made.calls[reader].result.kind == "other"


def class_of(name):
    return next(one for one in interface.OBJECTS if one.name == name)


def results_of_enums(made):
    """Returns the enums that are results; a later library may add values to them."""
    return {call.result.of for call in made.calls.values() if call.result.kind == "enum"}


def base_of(figures):
    return next((one for one in interface.FIGURES if one.name == figures.base), None)


def settings(made, ctype):
    return [call for call in made.calls.values() if call.owner == ctype and is_generated(call)]


def members(made, one):
    """Returns the calls of the fields of a group or a choice."""
    return [made.calls[function] for function, _, _ in one.members]


def setting_name(call):
    return re.sub(r"^set_", "", call.name)


def items_of(made, name):
    return next([item for item, _, _ in items] for enum, items in made.enums if enum.name == name)

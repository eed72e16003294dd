"""Writes the Go layer: enums, figures, settings and methods."""
import comments
import interface
import shape
from golang_page import CLASSES, ENUM_NAMES, ITEMS, argument, handle, item_name, native, type_of
from golang_settings import SettingsPage
from shape import go


class Writer(SettingsPage):
    def enums(self):
        for enum, items in self.made.enums:
            name = ENUM_NAMES[enum.name]
            self.say(comments.named(name, enum.comment))
            self.add(f"type {name} int32", "", f"// The values of {name}.", "const (")
            if enum.go_unset:
                item, comment = enum.go_unset
                self.value(name, item_name(enum, item), "0", comment)
            for item, constant, comment in items:
                self.value(name, item_name(enum, item), f"{name}(native.{constant}{' + 1' * bool(enum.go_unset)})",
                           comments.plain(comment[:1].upper() + comment[1:]))
            self.close(")")
            if enum.name != "ErrorCode":  # its names come from the library
                self.text_of(name, [(item_name(enum, item), item.lower()) for item in
                                    [*enum.go_unset[:1], *(item for item, _, _ in items)]])

    def value(self, kind, name, value, comment):
        """Writes a constant with its type, by which go doc finds it."""
        if comment:
            self.say(comment, "\t")
        self.add(f"\t{name} {kind} = {value}", "")

    def text_of(self, name, items):
        self.add(f'// String returns the name of the value, such as "{items[-1][1]}".', f"func (v {name}) String() string {{",
                 "\tswitch v {")
        for value, text in items:
            self.add(f"\tcase {value}:", f'\t\treturn "{text}"')
        self.add("\t}", f'\treturn nameOf("{name}", int32(v))', "}", "")

    # Figures.

    def figures(self):
        for one in interface.FIGURES:
            self.figure_type(one)
            if not any(other.base == one.name for other in interface.FIGURES):
                self.reader(one)
            if one.ctype == "quire_" + one.name.lower():
                self.taker(one)
            if one.when:
                self.add(f"// isLast reports whether this is the final event of its job.", f"func (o *{one.name}) isLast() bool {{",
                         f"\treturn {self.kinds(interface.LAST)}", "}", "")

    def figure_type(self, one):
        self.say(comments.named(one.name, one.comment))
        self.add(f"type {one.name} struct {{")
        if one.base:
            self.add(f"\t{one.base}", "")
        for name, _, call, _ in shape.fields_of(self.made, one):
            self.field(go(name), type_of(call.result), comments.noun(comments.plain(call.comment, call.result.kind)))
        for name in one.fixed:
            self.field(go(name), "float64", "")
        for part in one.parts:
            self.field(*self.part_field(part))
        self.close()

    @staticmethod
    def part_field(part):
        if part.of == "failure":
            return "Err", "error", "The *Error that ended the job, for an event of kind EventError."
        if part.count == "HistogramKind":
            return go(part.name), f"map[{part.count}]{part.of}", ""
        if part.name == "namespaces":
            return go(part.name), "map[string]Stats", "The statistics of the first 64 namespaces by name; nil in the statistics of a namespace."
        if part.count:
            return go(part.name), f"[]{part.of}", ""
        return go(part.name), f"*{part.of}", "The usage of the job, for a final event, otherwise nil."

    def reader(self, one):
        index = ", i int32" if one.index else ""
        self.add(f"func (o *{one.name}) read(f *figures[{handle(one.ctype)}]{index}) {{")
        if one.base:
            base = shape.base_of(one)
            for getter in base.getters.split():
                call = self.made.calls[f"{one.ctype}_{one.prefix}{getter}"]
                self.add(f"\to.{go(getter)} = {self.got(call, one)}")
        group = ()
        for name, _, call, when in shape.fields_of(self.made, one):
            group = self.guarded(group, when)
            self.add(("\t\t" if when else "\t") + f"o.{go(name)} = {self.got(call, one)}")
        self.guarded(group, ())
        for name, (getter, argument_) in one.fixed.items():
            function = native(f"{one.ctype}_{one.prefix}{getter}")
            self.add(f"\to.{go(name)} = get(f, func(source {handle(one.ctype)}, e *native.ErrorHandle) float64 {{",
                     f"\t\treturn {function}(source, i, {argument_}, e)", "\t})")
        for part in one.parts:
            self.read_part(one, part)
        self.add("}", "")

    def guarded(self, group, when):
        if group != when:
            if group:
                self.add("\t}")
            if when:
                self.add(f"\tif {self.kinds(when)} {{")
        return when

    @staticmethod
    def kinds(when):
        if when == interface.READ:
            return "o.ResponseKind != ResponseNone"
        return " || ".join(f"o.Kind == Event{go(kind.lower())}" for kind in when)

    def got(self, call, one):
        kind, function = call.result.kind, native(call.function)
        if kind in ITEMS:
            function = f"indexed({function}, i)" if one.index else function
            return f"{'getText' if kind == 'text' else 'getAll'}(f, {function})"
        function = f"numbered({function}, i)" if one.index else function
        value = f"get(f, {function})"
        cast = {"int": "int", "time": "time.Duration", "enum": type_of(call.result)}.get(kind)
        return f"{cast}({value})" if cast else value

    def read_part(self, one, part):
        name, count = go(part.name), native(f"{one.ctype}_{part.count}")
        if part.name == "namespaces":
            self.add(f"\tfor i, n := int32(0), int32(get(f, {count})); i < n && f.err == nil; i++ {{",
                     f"\t\tif o.{name} == nil {{", f"\t\t\to.{name} = map[string]{part.of}{{}}", "\t\t}",
                     f"\t\town := getText(f, indexed({native(one.ctype + '_namespace_name')}, i))",
                     f"\t\ttaken := get(f, numbered({native(one.ctype + '_namespace')}, i))", "\t\tif f.err == nil {",
                     f"\t\t\to.{name}[own], f.err = take{part.of}(taken)", "\t\t}", "\t}")
        elif part.count == "HistogramKind":
            items = shape.items_of(self.made, part.count)
            first, last = (item_name(next(e for e, _ in self.made.enums if e.name == part.count), i)
                           for i in (items[0], items[-1]))
            self.add(f"\to.{name} = map[{part.count}]{part.of}{{}}", f"\tfor kind := {first}; kind <= {last}; kind++ {{",
                     f"\t\tvar one {part.of}", "\t\tone.read(f, int32(kind))", f"\t\to.{name}[kind] = one", "\t}")
        elif part.count:
            self.add(f"\tfor i, n := int32(0), get(f, {count}); i < n && f.err == nil; i++ {{", f"\t\tvar one {part.of}",
                     "\t\tone.read(f, i)", f"\t\to.{name} = append(o.{name}, one)", "\t}")
        else:
            group = self.guarded((), part.when)
            if part.of == "failure":
                self.add("\t\to.Err = failureOf(f)")
            else:
                self.add(f"\t\to.{name} = &{part.of}{{}}", f"\t\to.{name}.read(f)")
            self.guarded(group, ())

    def taker(self, one):
        free = native(f"{one.ctype}_free")
        self.add(f"// take{one.name} copies a snapshot and frees it.",
                 f"func take{one.name}(taken {handle(one.ctype)}) ({one.name}, error) {{",
                 f"\tdefer {free}(taken, nil)", f"\tvar made {one.name}",
                 f"\tf := &figures[{handle(one.ctype)}]{{source: taken}}", "\tmade.read(f)", "\treturn made, f.err",
                 "}", "")

    # Methods.

    def objects(self):
        for one in interface.OBJECTS:
            name = one.go_name or one.name
            if not one.by_hand:
                self.say(comments.named(name, one.comment))
                self.add(f"type {name} struct {{", f"\thandle{' ' * 4 * one.waits} *handle[{handle(one.ctype)}]",
                         *["\tdispatcher *dispatcher"] * one.waits, "}", "")
            self.say(comments.named("Close", one.closing))
            self.add(f"func (o *{name}) Close() error {{ return o.handle.close() }}", "")
            for call, owner, made_by, _ in shape.creators(self.made, one):
                self.creator(call, owner, made_by)
            for call, called, _ in shape.statics(self.made, one):
                self.static(call, called)
            for function, submit in shape.submits(one):
                self.submit(function, submit)
            for call in shape.methods(self.made, one.ctype):
                self.method(call, name)
            for reader in interface.READERS:
                if reader[0] == one.name:
                    self.reading(reader, name)

    def head(self, call, name, receiver, results):
        """Writes the comment and signature of a method, and the preparation of its parameters."""
        said = comments.plain(call.comment, call.result.kind)
        self.say(comments.named(name, said) + " The wait ends when the context is done." * call.waits)
        given = ", ".join(["ctx context.Context"] * call.waits +
                          [f"{shape.camel(value.name)} {type_of(value)}" for value in call.parameters])
        self.add(f"func {receiver}{name}({given}) {results} {{")
        for value in call.parameters:
            own, none = shape.camel(value.name), "" if results == "error" else self.none(call) + ", "
            if value.kind == "object":
                self.add(f"\tdefer runtime.KeepAlive({own})")
            if value.nullable:
                self.add(f"\tvar {own}Value {handle(shape.ctype_of(value.of))}", f"\tif {own} != nil {{",
                         f"\t\tif {own}Value = {own}.handle.get(); {own}Value == 0 {{", f"\t\t\treturn {none}errClosed",
                         "\t\t}", "\t}")
            if value.kind == "filled":
                self.add(f"\t{own}Filled, err := {own}.native()", "\tif err != nil {", f"\t\treturn {none}err", "\t}",
                         f"\tdefer {own}Filled.close()")

    @staticmethod
    def none(call):
        return {"text": '""', "bool": "false", "tokens": "nil", "bytes": "nil", "values": "nil", "sizes": "nil",
                "object": "nil"}.get(call.result.kind, "0")

    def creator(self, call, owner, name):
        of, ctype = call.result.of, shape.ctype_of(call.result.of)
        result = handle(ctype)
        made = CLASSES[of]
        self.head(call, name, f"(o *{owner}) " if owner else "", f"(*{made}, error)")
        given = ", ".join(["value"] * bool(owner) + [argument(value) for value in call.parameters] + ["e"])
        inner = f"{native(call.function)}({given})"
        if owner:
            self.add(f"\tmade, err := with(o.handle, func(value {handle(shape.ctype_of(owner))}, e *native.ErrorHandle) {result} {{")
        else:
            self.add(f"\tmade, err := call(func(e *native.ErrorHandle) {result} {{")
        self.add(f"\t\treturn {inner}", "\t})", "\tif err != nil {", "\t\treturn nil, err", "\t}",
                 f"\treturn &{made}{{own(made, {native(ctype + '_free')}){', o.dispatcher' * shape.class_of(of).waits}}}, nil",
                 "}", "")

    def static(self, call, name):
        self.head(call, name, "", f"({type_of(call.result)}, error)")
        given = "".join(argument(value) + ", " for value in call.parameters)
        self.add(f"\tresult, err := measured(func(out []{ITEMS[call.result.kind]}, e *native.ErrorHandle) int64 {{",
                 f"\t\treturn {native(call.function)}({given}out, e)", "\t})", "\treturn string(result), err", "}", "")

    def submit(self, function, submit):
        name, head = go(submit.name), f"func (o *{submit.owner}) {go(submit.name)}"
        queue = "o.newQueue" if submit.makes_queue else "nil"
        self.say(comments.named(name, submit.comment))
        self.add(f"{head}(request Request) (*Job, error) {{", f"\treturn o.{name}Context(context.Background(), request)", "}", "",
                 f"// {name}Context does the same, and cancels the job when the context is done.",
                 f"{head}Context(ctx context.Context, request Request) (*Job, error) {{",
                 f"\treturn o.dispatcher.job(ctx, &request, {queue}, submitting(o.handle, {native(function)}))", "}", "")

    def waiting(self, call, owner):
        """Writes a method that waits and has no result."""
        given = "".join(argument(value) + ", " for value in call.parameters)
        self.head(call, go(call.name), f"(o *{owner}) ", "error")
        self.add("\treturn waited(ctx, func(cancel native.CancelHandle) (int32, error) {",
                 f"\t\treturn with(o.handle, func(value {handle(call.owner)}, e *native.ErrorHandle) int32 {{",
                 f"\t\t\treturn {native(call.function)}(value, {given}forever, cancel, e)", "\t\t})", "\t})", "}", "")

    def method(self, call, owner):
        kind, target = call.result.kind, handle(call.owner)
        if kind == "waited":
            return self.waiting(call, owner)
        given = "".join(argument(value) + ", " for value in call.parameters) + "forever, cancel, " * call.waits
        results = "error" if kind == "done" else f"({type_of(call.result)}, error)"
        self.head(call, go(call.name), f"(o *{owner}) ", results)
        if kind in ITEMS:
            got, native_result = ("[]" + ITEMS[kind],) * 2
            inner = [f"measuredWith(o.handle, func(value {target}, out {got}, e *native.ErrorHandle) int64 {{",
                     f"\t\treturn {native(call.function)}(value, {given}out, e)", "\t})"]
        else:
            native_result = {"long": "int64", "ulong": "uint64", "double": "float64", "time": "int64"}.get(kind, "int32")
            inner = [f"with(o.handle, func(value {target}, e *native.ErrorHandle) {native_result} {{",
                     f"\t\treturn {native(call.function)}(value, {given}e)", "\t})"]
        if call.waits:
            inner = [f"cancellable(ctx, func(cancel native.CancelHandle) ({native_result}, error) {{",
                     "\t\treturn " + inner[0], "\t" + inner[1], "\t" + inner[2], "\t})"]
        back = {"done": "err", "bool": "result == 1, err", "int": "int(result), err", "text": "string(result), err",
                "enum": f"{type_of(call.result) if kind == 'enum' else ''}(result), err",
                "time": "time.Duration(result), err"}.get(kind)
        if back is None:
            return self.add("\treturn " + inner[0], *inner[1:], "}", "")
        once = any(value.kind == "filled" for value in call.parameters) and kind == "done"
        result = ("_, err = " if once else "_, err := ") if kind == "done" else "result, err := "
        return self.add("\t" + result + inner[0], *inner[1:], "\treturn " + back, "}", "")

    def snapshot(self, call, head, figures):
        filled = shape.filled_of(call)
        given = [("path string, " if of.required else "") + f"{value.name} {of.name}" for value, of in filled]
        self.add(f"{head}({', '.join(given)}) ({figures}, error) {{")
        fails = ["\tif err != nil {", f"\t\treturn {figures}{{}}, err", "\t}"]
        for value, of in filled:
            self.add(f"\t{value.name}Filled, err := {value.name}.native({'path' * bool(of.required)})", *fails,
                     f"\tdefer {value.name}Filled.close()")
        if not filled:
            self.add(f"\ttaken, err := with(o.handle, {native(call.function)})")
        else:
            arguments = "".join(f"{argument(value)}, " for value, _ in filled)
            self.add(f"\ttaken, err := with(o.handle, func(value {handle(call.owner)}, e *native.ErrorHandle) native.{figures}Handle {{",
                     f"\t\treturn {native(call.function)}(value, {arguments}e)", "\t})")
        self.add(*fails, f"\treturn take{figures}(taken)", "}", "")

    def reading(self, reader, owner):
        _, name, figures, count = reader
        self.say(comments.named(go(name), interface.READER_COMMENTS[name]))
        if not count:
            return self.add(f"func (o *{owner}) {go(name)}() ({figures}, error) {{", f"\tvar info {figures}",
                            "\terr := read(o.handle, info.read)", "\treturn info, err", "}", "")
        if shape.is_snapshot(self.made, count):
            return self.snapshot(self.made.calls[count], f"func (o *{owner}) {go(name)}", figures)
        ctype = next(one.ctype for one in interface.FIGURES if one.name == figures)
        return self.add(f"func (o *{owner}) {go(name)}() ([]{figures}, error) {{", f"\tvar all []{figures}",
                        f"\terr := read(o.handle, func(f *figures[{handle(ctype)}]) {{",
                        f"\t\tfor i, n := int32(0), get(f, {native(count)}); i < n && f.err == nil; i++ {{",
                        f"\t\t\tvar one {figures}", "\t\t\tone.read(f, i)", "\t\t\tall = append(all, one)", "\t\t}",
                        "\t})", "\treturn all, err", "}", "")


def files(made):
    written = {}
    for name, parts in {"results": (Writer.enums, Writer.figures), "settings": (Writer.settings,),
                        "objects": (Writer.objects,)}.items():
        writer = Writer(made)
        for part in parts:
            part(writer)
        written[f"bindings/go/generated_{name}.go"] = writer.text()
    return written

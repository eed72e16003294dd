"""Settings of the Go layer: classes that fill native objects."""
import comments
import interface
import shape
from golang_page import SHIFTED, Page, argument, handle, native, type_of
from shape import go


class SettingsPage(Page):
    def settings(self):
        for one in interface.SETTINGS:
            target = handle(one.ctype)
            self.say(comments.named(one.name, one.comment) + " The zero value takes every default.")
            self.add(f"type {one.name} struct {{")
            for name, kind, _, comment in one.fields:
                self.field(name, kind, comment)
            for group in one.groups:
                self.field(group.field, f"map[string]{group.name}", group.field_comment)
            calls = shape.settings(self.made, one.ctype)
            for call in calls:
                if call.function not in interface.FILLED_BY_HAND or call.function in interface.COLLECTED:
                    for field in self.setting_fields(call):
                        self.field(*field)
            self.close()
            self.add(f"func (o *{one.name}) native({'text string' * bool(one.required)}) (*handle[{target}], error) {{",
                     *self.filled(one, target), "}", "",
                     f"func (o *{one.name}) fill(s *settings[{target}]) {{")
            for call in calls:
                if call.function not in interface.FILLED_BY_HAND:
                    self.fill(call, target)
            for group in one.groups:
                self.fill_group(group, target)
            self.add(*["\to.fillRest(s)"] * one.has_rest, "}", "")
            for group in one.groups:
                self.own_type(group, (self.group_kind(call) for call in shape.members(self.made, group)))
            for choice in one.choices:
                self.choice(choice, target)

    def filled(self, one, target):
        ends = f"filled({native(one.ctype + '_create')}, {native(one.ctype + '_free')}"
        if not one.required:
            return [f"\treturn {ends}, o.fill)"]
        setter = f"return {native(one.required)}(target, text, e)"
        return [f"\treturn {ends}, func(s *settings[{target}]) {{",
                f"\t\ts.apply(func(target {target}, e *native.ErrorHandle) int32 {{", f"\t\t\t{setter}", "\t\t})",
                "\t\to.fill(s)", "\t})"]

    def own_type(self, one, kinds, more=""):
        self.say(comments.named(one.name, one.comment) + more)
        self.add(f"type {one.name} struct {{")
        for (_, name, comment), kind in zip(one.members, kinds):
            self.field(name, kind, comment)
        self.close()

    @staticmethod
    def group_kind(call):
        kinds = [type_of(value) for value in call.parameters[1:]]
        return kinds[0] if len(kinds) == 1 else f"map[{kinds[0]}]{kinds[1]}"

    def fill_group(self, group, target):
        self.add(f"\tfor name, own := range o.{group.field} {{")
        for (_, field, _), call in zip(group.members, shape.members(self.made, group)):
            several = len(call.parameters) > 2
            self.add(f"\t\tfor key, value := range own.{field} {{" if several else f"\t\tif own.{field} != 0 {{",
                     *("\t" + line for line in
                       self.applied(call, target, ["name", "key", "value"] if several else ["name", f"own.{field}"])),
                     "\t\t}")
        self.add("\t}")

    def choice(self, choice, target):
        calls = shape.members(self.made, choice)
        self.own_type(choice, (type_of(call.parameters[0]) for call in calls), " The first of its fields that is set applies.")
        self.add(f"func (o *{choice.name}) add(s *settings[{target}]) {{", "\tswitch {")
        for (_, field, _), call in zip(choice.members, calls):
            is_set = "nil" if call.parameters[0].kind == "tokens" else '""'
            self.add("\tdefault:" if call is calls[-1] else f"\tcase o.{field} != {is_set}:",
                     *self.applied(call, target, [f"o.{field}"]))
        self.add("\t}", "}", "")

    def setting_fields(self, call):
        if len(call.parameters) < 2 or call.function in interface.COLLECTED:
            return [self.setting_field(call)]
        comment = comments.noun(comments.plain(call.comment))
        return [(go(f"{shape.setting_name(call)}_{value.name}"), type_of(value), comment if number == 0 else "")
                for number, value in enumerate(call.parameters)]

    def setting_field(self, call):
        comment = comments.noun(comments.plain(call.comment, call.parameters[-1].kind if call.parameters else ""))
        if call.function in interface.COLLECTED:
            name, kind, _ = interface.COLLECTED[call.function]
            return name, kind, comment
        value = call.parameters[0]
        name, kind = go(shape.setting_name(call)), ("*" if value.kind == "filled" else "") + type_of(value)
        if call.function in interface.GO_NOT:
            setting = comment.replace(" Default: true.", "")
            return interface.GO_NOT[call.function], kind, f"Negation of this setting, which is true by default: {setting}"
        if call.function in interface.GO_POINTER:
            return name, "*" + kind, comment
        if call.function in interface.GO_NEGATIVE:
            return name, kind, comment + " In Go, a negative number means 0, and 0 means the default."
        return name, kind, comment

    def fill(self, call, target):
        function = native(call.function)
        if call.function in interface.COLLECTED:
            return self.fill_several(call, target)
        if len(call.parameters) > 1:
            names = ["o." + name for name, _, _ in self.setting_fields(call)]
            self.add(f"\tif {' || '.join(name + ' != 0' for name in names)} {{", *self.applied(call, target, names), "\t}")
            return None
        value = call.parameters[0]
        field = "o." + interface.GO_NOT.get(call.function, go(shape.setting_name(call)))
        if call.function in interface.GO_POINTER:
            return self.add(f"\tif {field} != nil {{", *self.applied(call, target, ["*" + field]), "\t}")
        if call.function in interface.GO_NEGATIVE:
            return self.add(f"\tsetOrNone(s, {function}, {argument(value, field)})")
        if call.function in interface.GO_NOT:
            return self.add(f"\tif {field} {{", *self.applied(call, target, ["false"]), "\t}")
        if value.kind == "object":
            return self.add(f"\tif {field} != nil {{", f"\t\tshare(s, {function}, {field}.handle)", "\t}")
        if value.kind == "filled":
            return self.add(f"\tif {field} != nil {{", f"\t\tshareFilled(s, {function}, {field}.native)", "\t}")
        if value.kind == "enum" and value.of in SHIFTED:
            return self.add(f"\tif {field} != 0 {{", *self.applied(call, target, [field]), "\t}")
        if value.kind == "tokens":
            return self.add(f"\tif {field} != nil {{", *self.applied(call, target, [field]), "\t}")
        return self.add(f"\tset(s, {function}, {argument(value, field)})")

    def fill_several(self, call, target):
        name, kind, _ = interface.COLLECTED[call.function]
        names = ["_", "one"] if kind.startswith("[]") else ["key", "value"]
        one_by_one = [f"\tfor {', '.join(names)} := range o.{name} {{",
                      *self.applied(call, target, [one for one in names if one != "_"]), "\t}"]
        together = self.made.calls.get(interface.TOGETHER.get(call.function))
        if together:
            self.add(f"\tif keys, value, same := shared(o.{name}); same {{", *self.applied(together, target, ["keys", "value"]),
                     "\t} else {", *("\t" + line for line in one_by_one), "\t}")
        else:
            self.add(*one_by_one)

    @staticmethod
    def applied(call, target, names):
        given = ", ".join(argument(value, name) for value, name in zip(call.parameters, names))
        return [f"\t\ts.apply(func(target {target}, e *native.ErrorHandle) int32 {{",
                f"\t\t\treturn {native(call.function)}(target, {given}, e)", "\t\t})"]

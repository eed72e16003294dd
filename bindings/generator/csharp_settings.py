"""Settings of the C# layer: classes that fill native objects."""
import comments
import interface
import shape
from csharp_page import NATIVE, Page, argument, handle, type_of
from shape import camel, pascal


class SettingsPage(Page):
    def settings(self):
        for one in interface.SETTINGS:
            target = handle(one.ctype)
            self.say(one.comment + " Null or empty properties have their defaults. Not safe for concurrent use.")
            self.add("[NullableContext(1)]", f"public sealed unsafe partial class {one.name}", "{")
            for name, _, kind, comment in one.fields:
                self.setting_property(name, kind, comment)
            for group in one.groups:
                self.setting_property(group.field, f"IDictionary<string, {group.name}>", group.field_comment)
            calls = shape.settings(self.made, one.ctype)
            for call in calls:
                if call.function in interface.COLLECTED:
                    name, _, kind = interface.COLLECTED[call.function]
                    self.setting_property(name, kind, comments.noun(comments.plain(call.comment)))
                elif call.function not in interface.FILLED_BY_HAND:
                    for number, value in enumerate(call.parameters):
                        can_be_null = value.kind in ("text", "tokens", "object", "filled")
                        self.setting_property(self.setting_names(call)[number],
                                              type_of(value) + ("" if can_be_null else "?"),
                                              comments.noun(comments.plain(call.comment, value.kind)) if number == 0
                                              else f"Goes with {self.setting_names(call)[0]}.")
            required = ["            Call.SetText(required, (byte* text, UIntPtr size, out IntPtr e) =>",
                        f"                {NATIVE}{one.required}(target, text, size, out e));"] if one.required else []
            self.add("    /// <summary>Creates a native object, owned by the caller.</summary>",
                     f"    internal {target} ToNative({'string required' * bool(one.required)})", "    {",
                     *['        if (required == null) throw new ArgumentNullException("path");'] * bool(one.required),
                     f"        var target = new {target}(Call.Get<IntPtr>({NATIVE}{one.ctype}_create));", "        try",
                     "        {", *required, "            Fill(target);", "            return target;", "        }", "        catch",
                     "        {", "            target.Dispose();", "            throw;", "        }", "    }", "",
                     f"    private void Fill({target} target)", "    {")
            for call in calls:
                if call.function not in interface.FILLED_BY_HAND:
                    self.fill(call)
            for group in one.groups:
                self.fill_group(group)
            self.add(*["        FillRest(target);"] * one.has_rest, "    }", "}", "")
            for group in one.groups:
                self.group_type(group)
            for choice in one.choices:
                self.choice(choice, target)

    def fill_group(self, group):
        self.add(f"        foreach (var named in {group.field})", "        {", f"            {group.name} own = Require.NotNull(named.Value, \"{group.field}\");")
        for (function, field, _), call in zip(group.members, shape.members(self.made, group)):
            several = len(call.parameters) > 2
            given = ", ".join(argument(value, own) for value, own in
                              zip(call.parameters[1:], ("one.Key", "one.Value") if several else (f"own.{field}.Value",)))
            self.add(f"            foreach (var one in own.{field})" if several else
                     f"            if (own.{field}.HasValue)",
                     "                Call.SetText(named.Key, (byte* text, UIntPtr size, out IntPtr e) =>",
                     f"                    {NATIVE}{function}(target, text, size, {given}, out e));")
        self.add("        }")

    def group_type(self, group):
        self.say(group.comment)
        self.add("[NullableContext(1)]", f"public sealed class {group.name}", "{")
        for (_, field, comment), call in zip(group.members, shape.members(self.made, group)):
            kinds = [type_of(value) for value in call.parameters[1:]]
            self.setting_property(field, f"{kinds[0]}?" if len(kinds) == 1 else f"IDictionary<{kinds[0]}, {kinds[1]}>",
                                  comment)
        self.lines.pop()
        self.add("}", "")

    def choice(self, choice, target):
        kinds = [type_of(call.parameters[0]) for call in shape.members(self.made, choice)]
        self.say(choice.comment)
        self.add("[NullableContext(1)]", f"public sealed class {choice.name}", "{",
                 *(f"    private {kind} {camel(field.lower())};" for (_, field, _), kind in zip(choice.members, kinds)), "",
                 f"    private {choice.name}() {{ }}", "")
        for (_, field, comment), kind in zip(choice.members, kinds):
            own = camel(field.lower())
            self.say(comment, "        ")
            self.add(f"    public static {choice.name} Of{field}({kind} {own})", "    {",
                     f'        return new {choice.name} {{ {own} = Require.NotNull({own}, "{own}") }};', "    }", "")
        self.add(f"    internal unsafe void Add({target} target)", "    {")
        for (function, field, _), kind in zip(choice.members, kinds):
            how, item = ("Text", "byte") if kind == "string" else ("Tokens", "int")
            self.add(f"        Call.Set{how}({camel(field.lower())}, ({item}* values, UIntPtr size, out IntPtr e) =>",
                     f"            {NATIVE}{function}(target, values, size, out e));")
        self.add("    }", "}", "")

    @staticmethod
    def setting_names(call):
        name = shape.setting_name(call)
        if len(call.parameters) == 1:
            return [pascal(name)]
        return [pascal(f"{name}_{value.name}") for value in call.parameters]

    def setting_property(self, name, kind, comment):
        self.say(comment, "        ")
        made = f" = new {kind[1:]}();" if kind.startswith(("IList", "IDictionary")) else ""
        self.add(*["    [Nullable(2)]"] * (not made and not kind.endswith("?")))
        self.add(f"    public {kind} {name} {{ get; {'' if made else 'set; '}}}{made}", "")

    def fill(self, call):
        function, name = NATIVE + call.function, pascal(shape.setting_name(call))
        if call.function in interface.COLLECTED:
            self.fill_several(call, function)
            return
        value = call.parameters[0]
        if len(call.parameters) > 1:
            names = self.setting_names(call)
            given = ", ".join(argument(one, f"{own}.GetValueOrDefault()") for own, one in zip(names, call.parameters))
            self.add(f"        if ({' || '.join(own + ' != null' for own in names)})",
                     f"            Call.Get((out IntPtr e) => {function}(target, {given}, out e));")
        elif value.kind == "object":
            self.add(f"        if ({name} != null)",
                     f"            Call.Get((out IntPtr e) => {function}(target, {name}.Handle, out e));")
        elif value.kind == "filled":
            self.add(f"        if ({name} != null)", f"            using ({value.of}Handle value = {name}.ToNative())",
                     f"                Call.Get((out IntPtr e) => {function}(target, value, out e));")
        elif value.kind in ("text", "tokens"):
            item = "byte" if value.kind == "text" else "int"
            self.add(f"        Call.Set{'Text' if item == 'byte' else 'Tokens'}({name}, ({item}* values, UIntPtr size, out IntPtr e) =>",
                     f"            {function}(target, values, size, out e));")
        else:
            self.add(f"        Call.Set({name}, value => (out IntPtr e) =>",
                     f"            {function}(target, {argument(value, 'value')}, out e));")

    def fill_several(self, call, function):
        name, _, kind = interface.COLLECTED[call.function]
        if kind.startswith("IList"):
            values, given = ["one"], [("one", call.parameters[0])]
        else:
            values, given = None, list(zip(("pair.Key", "pair.Value"), call.parameters))
        together = self.made.calls.get(interface.TOGETHER.get(call.function))
        if together:
            self.add(f"        var shared{name} = Call.Shared({name});", f"        if (shared{name}.HasValue)",
                     f"            Call.SetTokens(System.Linq.Enumerable.ToArray({name}.Keys), (int* keys, UIntPtr size, out IntPtr e) =>",
                     f"                {NATIVE}{together.function}(target, keys, size, shared{name}.Value, out e));")
        self.add(f"        {'else ' if together else ''}foreach (var {values[0] if values else 'pair'} in {name})")
        if given[0][1].kind == "text":
            rest = "".join(f", {argument(value, own)}" for own, value in given[1:])
            self.add(f"            Call.SetText(Require.NotNull({given[0][0]}, \"{name}\"), (byte* text, UIntPtr size, out IntPtr e) =>",
                     f"                {function}(target, text, size{rest}, out e));")
        else:
            arguments = ", ".join(argument(value, own) for own, value in given)
            self.add(f"            Call.Get((out IntPtr e) => {function}(target, {arguments}, out e));")

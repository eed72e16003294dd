"""Writes the C# layer: enums, handles, exceptions, figures, settings, and the methods that need no manual code. The
output must compile with mcs 6.8."""
import comments
import interface
import shape
from csharp_page import ITEMS, NATIVE, argument, handle, item_name, not_null, type_of
from csharp_settings import SettingsPage
from shape import camel, pascal


class Writer(SettingsPage):
    def enums(self):
        for enum, items in self.made.enums:
            self.say(enum.comment)
            self.add(f"public enum {enum.name}", "{")
            for item, constant, comment in items:
                if comment:
                    self.say(comments.plain(comment[0].upper() + comment[1:]), "        ")
                self.add(f"    {item_name(item)} = {NATIVE}{constant},", "")
            self.lines.pop()
            self.add("}", "")

    def exceptions(self):
        items = [(item_name(item), comment) for enum, all_ in self.made.enums if enum.name == "ErrorCode"
                 for item, _, comment in all_ if item != "OK"]
        for item, comment in items:
            self.say(f"Failure with ErrorCode.{item}: {comment}")
            self.add(f"public sealed class Quire{item}Exception : QuireException", "{",
                     f"    internal Quire{item}Exception(string message) : base(ErrorCode.{item}, message) {{ }}", "}", "")
        self.add("[NullableContext(1)]", "public partial class QuireException", "{",
                 "    /// <summary>Creates the exception for a code.</summary>",
                 "    internal static QuireException Of(ErrorCode code, string message)", "    {", "        switch (code)",
                 "        {")
        for item, _ in items:
            self.add(f"            case ErrorCode.{item}: return new Quire{item}Exception(message);")
        self.add("            default: return new QuireException(code, message);", "        }", "    }", "}", "")

    def handles(self):
        for ctype in [call.function[:-len("_free")] for call in self.made.calls.values()
                      if call.function == f"{call.owner}_free"]:
            if ctype not in ("quire_stats", "quire_plan", "quire_event", "quire_error"):
                name = handle(ctype)
                self.add(f"internal sealed class {name} : NativeHandle", "{",
                         "    /// <summary>Handle of no object.</summary>",
                         f"    public static readonly {name} None = new {name}(IntPtr.Zero);", "", f"    public {name}(IntPtr value) : base(value) {{ }}", "",
                         "    protected override int Free(IntPtr value, out IntPtr error)", "    {",
                         f"        return {NATIVE}{ctype}_free(value, out error);", "    }", "}", "")

    # Figures.

    def figures(self):
        for one in interface.FIGURES:
            is_base = any(other.base == one.name for other in interface.FIGURES)
            self.say(one.comment)
            base = f" : {one.base}" if one.base else ""
            self.add("[NullableContext(1)]", f"public {'' if is_base else 'sealed '}unsafe partial class {one.name}{base}", "{",
                     f"    internal {one.name}() {{ }}", "")
            for name, _, call, _ in shape.fields_of(self.made, one):
                self.property(type_of(call.result), pascal(name), comments.noun(comments.plain(call.comment, call.result.kind)))
            for name in one.fixed:
                self.property("double", pascal(name), f"The {name[1:]}th percentile.")
            for part in one.parts:
                self.property(*self.part_field(part), can_be_null=not part.count)
            if one.when:
                self.add("    /// <summary>True if this is the final event of its job.</summary>",
                         f"    public bool IsLast {{ get {{ return {self.kinds(interface.LAST)}; }} }}", "")
            if is_base:
                self.lines.pop()
            else:
                self.reader(one)
            self.add("}", "")

    def property(self, kind, name, comment, can_be_null=False):
        self.say(comment, "        ")
        self.add(*["    [Nullable(2)]"] * can_be_null)
        self.add(f"    public {kind} {name} {{ get; internal set; }}", "")

    @staticmethod
    def part_field(part):
        name = pascal(part.name)
        if part.of == "failure":
            return "QuireException", "Error", "The reason why the job failed, for an event of kind Error, otherwise null."
        if part.count == "HistogramKind":
            return f"IDictionary<{part.count}, {part.of}>", name, "One histogram per kind."
        if part.name == "namespaces":
            return "IDictionary<string, Stats>", name, "The statistics of the first 64 namespaces by name; empty in the statistics of a namespace."
        if part.count:
            return f"IList<{part.of}>", name, "A list in an order that does not change."
        return part.of, name, "The usage of the job, for a final event, otherwise null."

    def reader(self, one):
        index, given = (", int idx", "source, idx") if one.index else ("", "source")
        source = handle(one.ctype) if one.ctype not in shape.SNAPSHOTS else "IntPtr"
        if one.ctype == "quire_" + one.name.lower():
            self.add("    /// <summary>Copies a native snapshot and frees it.</summary>",
                     f"    internal static {one.name} Take(IntPtr source)", "    {", "        try", "        {",
                     "            return Of(source);", "        }", "        finally", "        {",
                     "            IntPtr error;", f"            {NATIVE}{one.ctype}_free(source, out error);",
                     "            if (error != IntPtr.Zero) QuireNative.quire_error_free(error);", "        }", "    }", "")
        self.add(f"    internal static {one.name} Of({source} source{index})", "    {", f"        var made = new {one.name}();",
                 f"        made.Read{one.name}({given});", "        return made;", "    }", "",
                 f"    private void Read{one.name}({source} source{index})", "    {")
        if one.base:
            for getter in shape.base_of(one).getters.split():
                self.assign(getter, self.made.calls[f"{one.ctype}_{one.prefix}{getter}"], given, ())
        for name, _, call, when in shape.fields_of(self.made, one):
            self.assign(name, call, given, when)
        for name, (getter, value) in one.fixed.items():
            self.add(f"        {pascal(name)} = Call.Get((out IntPtr e) => "
                     f"{NATIVE}{one.ctype}_{one.prefix}{getter}({given}, {value}, out e));")
        for part in one.parts:
            self.read_part(one, part)
        self.add("    }")

    def assign(self, name, call, given, when):
        value, kind = self.got(call, given), call.result.kind
        if when:
            none = {"text": '""', "borrowed": '""', "tokens": "new int[0]", "values": "new float[0]",
                    "enum": f"default({call.result.of})"}.get(kind, "0")
            value = f"{self.kinds(when)}\n                ? {value} : {none}"
        self.add(f"        {pascal(name)} = {value};")

    @staticmethod
    def kinds(when):
        if when == interface.READ:
            return "ResponseKind != ResponseKind.None"
        return " || ".join(f"Kind == EventKind.{pascal(kind.lower())}" for kind in when)

    @staticmethod
    def got(call, given):
        kind, function = call.result.kind, NATIVE + call.function
        given += ", " * bool(given)
        if kind in ITEMS:
            item = ITEMS[kind]
            how = "FetchText" if kind == "text" else f"Fetch<{item}>"
            return (f"Call.{how}((void* values, UIntPtr size, out IntPtr e) =>\n"
                    f"                {function}({given}({item}*)values, size, out e))")
        if kind == "borrowed":
            return f"Call.Borrow((UIntPtr* size, out IntPtr e) => {function}({given}size, out e))"
        got = f"Call.Get((out IntPtr e) => {function}({given}out e))"
        return {"enum": f"({call.result.of}){got}", "time": f"Call.FromNanoseconds({got})",
                "bool": f"{got} == 1"}.get(kind, got)

    def read_part(self, one, part):
        name, count = pascal(part.name), f"{NATIVE}{one.ctype}_{part.count}"
        if part.of == "failure":
            self.add(f"        Error = {self.kinds(part.when)} ? QuireException.OfEvent(source) : null;")
        elif part.count == "HistogramKind":
            self.add(f"        {name} = new Dictionary<{part.count}, {part.of}>();",
                     f"        foreach ({part.count} kind in Enum.GetValues(typeof({part.count})))",
                     f"            {name}[kind] = {part.of}.Of(source, (int)kind);")
        elif part.name == "namespaces":
            own = f"{NATIVE}{one.ctype}_namespace"
            self.add(f"        {name} = new Dictionary<string, {part.of}>();",
                     f"        foreach (int idx in Call.All((out IntPtr e) => (int){count}(source, out e), idx => idx))",
                     f"            {name}[Call.FetchText((void* text, UIntPtr size, out IntPtr e) =>",
                     f"                    {own}_name(source, idx, (byte*)text, size, out e))] =",
                     f"                Take(Call.Get((out IntPtr e) => {own}(source, idx, out e)));")
        elif part.count:
            self.add(f"        {name} = Call.All((out IntPtr e) => {count}(source, out e), idx => {part.of}.Of(source, idx));")
        else:
            self.add(f"        {name} = {self.kinds(part.when)} ? {part.of}.Of(source) : null;")

    # Methods.

    def objects(self):
        for one in interface.OBJECTS:
            self.say(one.comment)
            self.add("[NullableContext(1)]", f"public sealed unsafe partial class {one.name} : IDisposable", "{",
                     f"    internal {handle(one.ctype)} Handle {{ get; private set; }}", "",
                     *["    private readonly Dispatcher dispatcher; // shared by all jobs of the runtime", ""] * one.waits)
            if not one.by_hand and one.name != "Runtime":
                self.add(f"    internal {one.name}(IntPtr value{', Dispatcher dispatcher' * one.waits})", "    {",
                         f"        Handle = new {handle(one.ctype)}(value);",
                         *["        this.dispatcher = dispatcher;"] * one.waits, "    }", "")
            self.add(f"    /// <summary>{one.closing}</summary>", "    public void Dispose()", "    {", "        Handle.Dispose();",
                     "    }", "")
            for call, owner, _, made_by in shape.creators(self.made, one):
                self.method(call, made_by, is_static=not owner)
            for call, _, called in shape.statics(self.made, one):
                self.method(call, called, is_static=True)
            for function, submit in shape.submits(one):
                self.submit(function, submit)
            for call in shape.methods(self.made, one.ctype):
                self.method(call, pascal(call.name))
            for reader in interface.READERS:
                if reader[0] == one.name:
                    self.reading(*reader[1:])
            self.lines.pop()
            self.add("}", "")

    def submit(self, function, submit):
        self.say(submit.comment + " Cancelling the token cancels the job.", "        ")
        token = "System.Threading.CancellationToken cancel"
        self.add(f"    public Job {pascal(submit.name)}(Request request, {token} = default({token.split()[0]}))", "    {",
                 "        " + not_null("request"), "        cancel.ThrowIfCancellationRequested();",
                 f'        if (Handle.IsClosed) throw new ObjectDisposedException("{submit.owner}");',
                 f"        return dispatcher.Submit(request, {'CreateQueue' if submit.makes_queue else 'null'}, filled => new Job(",
                 f"            Call.Get((out IntPtr e) => {NATIVE}{function}(Handle, filled, out e)), dispatcher, request, cancel));",
                 "    }", "")

    def method(self, call, name, is_static=False):
        values, kind = call.parameters, call.result.kind
        said = comments.plain(call.comment, kind)
        self.say(said + " Cancelling the token ends the wait." if call.waits else said, "        ")
        result = "void" if kind in ("done", "waited") else type_of(call.result)
        given = ", ".join([f"{'[Nullable(2)] ' * value.may_be_null}{type_of(value)} {camel(value.name)}" +
                           (f" = {interface.DEFAULTS[value.name]}" if value.name in interface.DEFAULTS else "")
                           for value in values] +
                          ["System.Threading.CancellationToken cancel = default(System.Threading.CancellationToken)"] *
                          call.waits)
        arguments = ", ".join(["Handle"] * (not is_static) + [argument(value) for value in values] +
                              [f"{NATIVE}QUIRE_WAIT_FOREVER, cancelValue"] * call.waits)
        inner = self.got(call, arguments)
        if call.waits:
            inner = f"ending.During(cancelValue => {inner})"
        if kind == "object":
            inner = f"new {call.result.of}({inner}{', dispatcher' * shape.class_of(call.result.of).waits})"
        inner = {"done": inner, "waited": f"if ({inner} != 1) cancel.ThrowIfCancellationRequested()",
                 "optional": f"return Call.UnlessNegative({inner})"}.get(kind, "return " + inner) + ";"
        if not values and kind in ("int", "long"):
            self.add(f"    public {result} {name}", "    {", f"        get {{ {inner} }}", "    }", "")
            return
        self.add(f"    public {'static ' if is_static else ''}{result} {name}({given})", "    {")
        self.add(*("        " + not_null(camel(value.name)) for value in values
                   if value.kind in ("tokens", "object", "filled") and not value.may_be_null))
        usings = ["using (var ending = new Cancel(cancel))"] * call.waits
        for value in values:
            own = camel(value.name)
            source = f'Utf8.Bytes({own}, "{own}")' if value.kind == "text" else own
            if value.kind in ("text", "tokens"):
                usings.append(f"using (var {own}Pinned = new Pinned({source}))")
            if value.kind == "filled":
                source = f"({own} ?? new {value.of}())" if value.may_be_null else own
                usings.append(f"using (var {own}Filled = {source}.ToNative())")
        self.add(*["        " + using for using in usings])
        self.add(("            " if usings else "        ") + inner, "    }", "")

    def snapshot(self, call, name, figures):
        filled, given = shape.filled_of(call), []
        for value, of in filled:
            given += ["string path"] * bool(of.required) + [f"[Nullable(2)] {of.name} {camel(value.name)} = null"]
        self.add(f"    public {figures} {pascal(name)}({', '.join(given)})", "    {")
        self.add(*(f"        using (var {camel(value.name)}Filled = ({camel(value.name)} ?? new {of.name}())"
                   f".ToNative({'path' * bool(of.required)}))" for value, of in filled))
        arguments = "".join(f"{argument(value)}, " for value, _ in filled)
        self.add(f"        {'    ' * bool(filled)}return Quire.{figures}.Take(Call.Get((out IntPtr e) => "
                 f"{NATIVE}{call.function}(Handle, {arguments}out e)));", "    }", "")

    def reading(self, name, figures, count):
        self.say(interface.READER_COMMENTS[name], "        ")
        if shape.is_snapshot(self.made, count):
            return self.snapshot(self.made.calls[count], name, figures)
        kind, body = (figures, f"{figures}.Of(Handle)") if not count else (
            f"IList<{figures}>", f"Call.All((out IntPtr e) => {NATIVE}{count}(Handle, out e), idx => {figures}.Of(Handle, idx))")
        self.add(f"    public {kind} {pascal(name)}()", "    {", f"        return {body};", "    }", "")


def files(made):
    written = {}
    for name, parts, namespace in (("Enums", (Writer.enums, Writer.exceptions), "Quire"),
                                   ("NativeHandles", (Writer.handles,), "Quire.Native"),
                                   ("Figures", (Writer.figures,), "Quire"), ("Settings", (Writer.settings,), "Quire"),
                                   ("Objects", (Writer.objects,), "Quire")):
        writer = Writer(made)
        for part in parts:
            part(writer)
        written[f"layer/{name}.cs"] = writer.text(namespace)
    return written

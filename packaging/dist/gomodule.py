"""The Go modules in the layout of a module proxy: GOPROXY=file://FOLDER finds each by its path."""
import json

import archive
import context as shared

SOURCE = shared.ROOT / "bindings/go"
NESTED = SOURCE / "purego"  # a module of its own
SHIPPED = (".go", ".mod", ".sum", ".c", ".h", ".html")


def make(context):
    _module(context, "quire.dev/quire", SOURCE)
    _module(context, "quire.dev/quire/purego", NESTED)


def _module(context, name, source):
    version = f"v{context.version}"
    folder = context.out / "go" / name / "@v"
    found = {f"{name}@{version}/{path.relative_to(source)}": path.read_bytes()
             for path in source.rglob("*") if path.suffix in SHIPPED and path.is_file()
             and (source == NESTED or NESTED not in path.parents)}
    found[f"{name}@{version}/LICENSE"] = shared.licence()
    archive.write_zip(folder / f"{version}.zip", found, context.epoch)
    (folder / "list").write_text(f"{version}\n", encoding="utf-8")
    (folder / f"{version}.mod").write_bytes((source / "go.mod").read_bytes())
    (folder / f"{version}.info").write_text(json.dumps({"Version": version, "Time": context.time}) + "\n", encoding="utf-8")

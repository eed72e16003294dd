"""The Go module as a module proxy serves it: GOPROXY=file://FOLDER finds it by its path."""
import json
import time

import archive
import context as shared

MODULE = "quire.dev/quire"
SHIPPED = (".go", ".mod", ".c", ".h", ".html")


def make(context):
    source = shared.ROOT / "bindings/go"
    version = f"v{context.version}"
    folder = context.out / "go" / MODULE / "@v"
    found = {f"{MODULE}@{version}/{path.relative_to(source)}": path.read_bytes()
             for path in source.rglob("*") if path.suffix in SHIPPED and path.is_file()}
    found[f"{MODULE}@{version}/LICENSE"] = shared.licence()
    archive.write_zip(folder / f"{version}.zip", found, context.epoch)
    (folder / "list").write_text(f"{version}\n", encoding="utf-8")
    (folder / f"{version}.mod").write_bytes((source / "go.mod").read_bytes())
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(context.epoch))
    (folder / f"{version}.info").write_text(json.dumps({"Version": version, "Time": when}) + "\n", encoding="utf-8")

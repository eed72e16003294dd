"""The Go modules in the layout of a module proxy: GOPROXY=file://FOLDER finds each by its path. The same folder, served
as https://quire.dev, is the site of the modules: a page for each leads `go get` to its files."""
import json

import archive
import context as shared

SOURCE = shared.ROOT / "bindings/go"
NESTED = SOURCE / "purego"  # a module of its own
SHIPPED = (".go", ".mod", ".sum", ".c", ".h", ".html", ".css", ".mjs", ".svg")


SITE = "https://quire.dev"
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="go-import" content="{module} mod {site}">
<title>{module}</title>
</head>
<body>
<p><code>go get {module}@v{version}</code></p>
<p>The package is compiled with the library Quire of the system, which pkg-config finds.</p>
</body>
</html>
"""


def make(context):
    _module(context, "quire.dev/quire", SOURCE)
    _module(context, "quire.dev/quire/purego", NESTED)


def _module(context, name, source):
    version = f"v{context.version}"
    page = context.out / "go" / name.removeprefix("quire.dev/") / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(PAGE.format(module=name, site=SITE, version=context.version), encoding="utf-8")
    folder = context.out / "go" / name / "@v"
    found = {f"{name}@{version}/{path.relative_to(source)}": path.read_bytes()
             for path in source.rglob("*") if path.suffix in SHIPPED and path.is_file()
             and (source == NESTED or NESTED not in path.parents)}
    found[f"{name}@{version}/LICENSE"] = shared.licence()
    archive.write_zip(folder / f"{version}.zip", found, context.epoch)
    (folder / "list").write_text(f"{version}\n", encoding="utf-8")
    (folder / f"{version}.mod").write_bytes((source / "go.mod").read_bytes())
    (folder / f"{version}.info").write_text(json.dumps({"Version": version, "Time": context.time}) + "\n", encoding="utf-8")

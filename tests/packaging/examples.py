"""The examples of docs/examples in C, C++ and Go: built from the distribution alone, and run on the packaged model."""
import re
import shutil

from shell import ROOT, environment, fresh_folder, require, run

MAX_LINES = 40
# What each example prints.
PRINTS = {
    "streamed_chat": r"\d+ tokens\n\Z",
    "tool_call": r'\Atemperature \{"city": ?"(Oslo|Rome)"\}\n',
    "schema": r'"year": ?\d{4}\}|, \d{4}\n\Z',
    "cancellation": r"\Acancelled after [2-9]\d tokens\n\Z",
    "many_clients": r"\b16 answers, \d+ tokens\n\Z",
}


def require_short(sources):
    """Checks that there is a source for each example, none of which is long."""
    require({path.stem if path.stem != "main" else path.parent.name for path in sources} == set(PRINTS), f"{sources}")
    for path in sources:
        lines = path.read_text(encoding="utf-8").count("\n")
        require(lines <= MAX_LINES, f"{path} has {lines} lines, but the limit is {MAX_LINES}")


def run_all(folder, model, variables):
    """Runs every example and checks what it prints."""
    for name, pattern in PRINTS.items():
        shown = run(folder / name, model, env=variables)
        require(re.search(pattern, shown), f"{name} prints {shown!r}")


def native(options, language, suffix):
    """Builds the examples of C or C++ as they are installed with the headers."""
    sources = options.root / "share/doc/libquire-dev/examples" / language
    require_short(sorted(sources.glob(f"*.{suffix}")))
    build = fresh_folder(options.work / f"{language}_examples")
    run("cmake", "-S", sources, "-B", build, f"-DCMAKE_PREFIX_PATH={options.root}", env=environment())
    run("cmake", "--build", build, env=environment())
    run_all(build, options.model, environment())


def go(options, version, library):
    """Builds the examples of Go as a module, against the modules and the library of the distribution."""
    folder = options.work / "go_examples"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs/examples/go", folder)
    require_short(sorted(folder.glob("*/main.go")))
    variables = environment(
        GOPROXY=f"file://{options.dist / 'go'}", GONOSUMDB="quire.dev", GOFLAGS="-modcacherw -trimpath", GOTOOLCHAIN="local",
        GOMODCACHE=str(options.work / "go_example_modules"), GOCACHE=str(options.build / "go"), CGO_ENABLED="1",
        PKG_CONFIG_PATH=str(library / "pkgconfig"), LD_LIBRARY_PATH=str(library))
    shutil.rmtree(options.work / "go_example_modules", ignore_errors=True)  # an earlier version of the same name
    run("go", "get", f"quire.dev/quire@{version}", cwd=folder, env=variables)
    (folder / "bin").mkdir()
    run("go", "build", "-o", "bin", "./...", cwd=folder, env=variables)
    run_all(folder / "bin", options.model, variables)

"""Java's adapters: for each a jar of classes, a jar of sources, and its pom. They are compiled against the artifacts
of their frameworks, which `./dev artifacts` downloads (docs/integrations.md). An adapter without its framework is
skipped with a message."""
import dataclasses
import os
import pathlib
import tempfile

import context as shared
import maven


@dataclasses.dataclass(frozen=True)
class Adapter:
    folder: str    # below bindings/java
    jars: str      # below QUIRE_ARTIFACTS, by default build/artifacts
    module: str


ADAPTERS = (Adapter("langchain4j", "langchain4j", "dev.quire.langchain4j"),
            Adapter("spring-ai", "spring", "dev.quire.springai"))


def _files(folder, pattern="*"):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob(pattern)) if path.is_file()}


def _classes(context, folder, jars):
    classpath = ":".join(map(str, [context.build / "lib/quire.jar", *jars]))
    with tempfile.TemporaryDirectory() as out:
        shared.run("javac", "-Xlint:all,-classfile", "-Werror", "--release", "17", "-encoding", "UTF-8", "-d", out,
                   "-cp", classpath, *sorted(folder.rglob("*.java")))
        return _files(pathlib.Path(out))


def _make_one(context, adapter, jars):
    artifact, folder = f"quire-{adapter.folder}", shared.ROOT / "bindings/java" / adapter.folder
    pom = (folder / "pom.xml").read_text(encoding="utf-8")
    if f"<version>{context.version}</version>" not in pom:
        raise SystemExit(f"dist: {folder}/pom.xml does not have the version {context.version}; change it")
    resources = _files(folder / "resources") if (folder / "resources").is_dir() else {}
    both = {"META-INF/LICENSE": shared.licence(), **resources,
            "META-INF/MANIFEST.MF": maven.manifest(context, artifact, f"Automatic-Module-Name: {adapter.module}\r\n")}
    maven.write(context, artifact, pom, {"": both | _classes(context, folder, jars),
                                         "-sources": both | _files(folder, "*.java")})


def make(context):
    artifacts = pathlib.Path(os.environ.get("QUIRE_ARTIFACTS", shared.ROOT / "build/artifacts"))
    for adapter in ADAPTERS:
        jars = sorted((artifacts / adapter.jars).glob("*.jar"))
        if jars:
            _make_one(context, adapter, jars)
        else:
            print(f"dist: quire-{adapter.folder} is skipped: {artifacts / adapter.jars} has no jars; run ./dev artifacts")

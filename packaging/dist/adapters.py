"""Java's adapters: for each a jar of classes, jars of its sources and its reference, and its pom. They are compiled against the artifacts
of their frameworks, which `./dev artifacts` downloads (docs/integrations.md). An adapter without its framework is
left out, with the reason."""
import dataclasses
import os
import pathlib
import tempfile

import context as shared
import javadoc
import maven


@dataclasses.dataclass(frozen=True)
class Adapter:
    folder: str    # below bindings/java
    jars: str      # below QUIRE_ARTIFACTS, by default build/artifacts
    module: str


ADAPTERS = (Adapter("langchain4j", "langchain4j", "dev.quire.langchain4j"),
            Adapter("spring-ai", "spring", "dev.quire.springai"))


def _classes(folder, classpath):
    with tempfile.TemporaryDirectory() as out:
        shared.run("javac", "-Xlint:all,-classfile", "-Werror", "-parameters", "--release", "17", "-encoding", "UTF-8", "-d", out,
                   "-cp", ":".join(map(str, classpath)), *sorted(folder.rglob("*.java")))
        return javadoc.files(pathlib.Path(out))


def _make_one(context, adapter, jars):
    artifact, folder = f"quire-{adapter.folder}", shared.ROOT / "bindings/java" / adapter.folder
    pom = (folder / "pom.xml").read_text(encoding="utf-8")
    if f"<version>{context.version}</version>" not in pom:
        raise SystemExit(f"dist: {folder}/pom.xml does not have the version {context.version}; change it")
    resources = javadoc.files(folder / "resources") if (folder / "resources").is_dir() else {}
    both = {"META-INF/LICENSE": shared.licence(), **resources,
            "META-INF/MANIFEST.MF": maven.manifest(context, artifact, f"Automatic-Module-Name: {adapter.module}\r\n")}
    classpath, sources = [context.build / "lib/quire.jar", *jars], javadoc.files(folder, "*.java")
    maven.write(context, artifact, pom.replace("<tag>HEAD</tag>", f"<tag>{context.commit}</tag>"),
                {"": both | _classes(folder, classpath), "-sources": both | sources,
                 "-javadoc": both | javadoc.reference(sources, f"{artifact} {context.version}", classpath)})


def make(context):
    artifacts = pathlib.Path(os.environ.get("QUIRE_ARTIFACTS", shared.ROOT / "build/artifacts"))
    for adapter in ADAPTERS:
        jars = sorted((artifacts / adapter.jars).glob("*.jar"))
        if jars:
            _make_one(context, adapter, jars)
        else:
            context.left_out.append(f"quire-{adapter.folder}: {artifacts / adapter.jars} has no jars; run ./dev artifacts")

#!/usr/bin/env python3
"""Compiles a Java adapter against the real artifacts of its framework, with its tests and the examples of
docs/integrations.md.

usage: adapters.py (langchain4j | spring-ai) LIB_DIR TEST_CLASSES FOLDER MODEL PROMPT EXPECTED. The artifacts are in
folders of QUIRE_ARTIFACTS (default: build/artifacts; ./dev artifacts downloads them). Exits with status 77 and a
message if they are absent. Downloads nothing.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
ARTIFACTS = pathlib.Path(os.environ.get("QUIRE_ARTIFACTS", ROOT / "build/artifacts"))


class Adapter:
    """A folder of bindings/java, its jar, the artifact that it extends, and the parameters of its examples."""

    def __init__(self, name, needs, artifact, test, imports):
        self.name, self.needs, self.artifact, self.test, self.imports = name, needs, artifact, test, imports
        self.jars = ARTIFACTS / name.split("-", maxsplit=1)[0]


ADAPTERS = {
    "langchain4j": Adapter("langchain4j", "langchain4j-core 1.20 or later", r"langchain4j-core-1\.[2-9]\d.*\.jar",
                           "story.Langchain4jTest", [
        "dev.langchain4j.agent.tool.*", "dev.langchain4j.data.message.*", "dev.langchain4j.data.segment.*",
        "dev.langchain4j.model.chat.*", "dev.langchain4j.model.chat.request.*", "dev.langchain4j.model.chat.request.json.*",
        "dev.langchain4j.model.chat.response.*", "dev.langchain4j.model.embedding.*", "dev.langchain4j.model.scoring.*",
        "dev.quire.*", "dev.quire.langchain4j.*", "java.util.*", "java.util.concurrent.*"]),
    "spring-ai": Adapter("spring-ai", "spring-ai-model 2 and spring-boot-autoconfigure", r"spring-ai-model-2\..*\.jar",
                         "story.SpringAiTest", [
        "dev.quire.*", "dev.quire.springai.*", "java.util.*", "org.springframework.ai.chat.model.*",
        "org.springframework.ai.chat.prompt.*", "org.springframework.ai.embedding.*", "reactor.core.publisher.*"]),
}


def jars(adapter):
    found = sorted(adapter.jars.glob("*.jar"))
    if shutil.which("javac") is None or not any(re.fullmatch(adapter.artifact, jar.name) for jar in found):
        print(f"skipped: {adapter.jars} has no {adapter.needs}; ./dev artifacts brings them")
        sys.exit(77)
    return [str(jar) for jar in found]


def compiled(sources, folder, classpath):
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["javac", "-Xlint:all", "-Xlint:-classfile", "-Werror", "--release", "17", "-encoding", "UTF-8", "-d", folder,
                    "-cp", ":".join(classpath), *map(str, sources)], check=True)


def example(code, adapter, number):
    imports = "".join(f"import {name};\n" for name in adapter.imports)
    return (f"{imports}final class Example{number} {{\n  public static void main(String[] arguments) throws Exception {{\n"
            f"    String path = arguments[0];\n{code}\n  }}\n}}\n")


def run_examples(adapter, folder, classpath, options, model):
    """Compiles and runs all examples. Each is the body of a function that has the path of a model as parameter."""
    pages = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    codes = re.findall(rf"^```java {adapter.name}\n(.*?)^```", pages, re.DOTALL | re.MULTILINE)
    assert codes, f"docs/integrations.md has no example of {adapter.name}"
    sources = folder / "examples"
    sources.mkdir(parents=True, exist_ok=True)
    paths = [sources / f"Example{number}.java" for number in range(len(codes))]
    for number, code in enumerate(codes):
        paths[number].write_text(example(code, adapter, number), encoding="utf-8")
    compiled(paths, folder / "example_classes", classpath)
    for path in paths:
        subprocess.run(["java", *options, "-cp", ":".join([*classpath, str(folder / "example_classes")]), path.stem, model],
                       check=True, timeout=300)


def check_version(adapter):
    """Checks that the adapter's pom has the version of the project."""
    header = (ROOT / "capi" / "include" / "quire" / "version.h").read_text()
    version = re.search(r'QUIRE_VERSION_STRING "([^"]+)"', header).group(1)
    pom = (ROOT / "bindings" / "java" / adapter.name / "pom.xml").read_text()
    assert f"<version>{version}</version>" in pom, f"pom.xml of {adapter.name} has not the version {version}"


def main():
    adapter, (lib, tests, folder, *arguments) = ADAPTERS[sys.argv[1]], sys.argv[2:]
    check_version(adapter)
    found = jars(adapter)
    folder = pathlib.Path(folder, adapter.name)
    sources = ROOT / "bindings" / "java" / adapter.name
    classpath = [f"{lib}/quire.jar", *found]
    compiled(sources.rglob("*.java"), folder / "classes", classpath)
    resources = sources / "resources"
    if resources.is_dir():
        shutil.copytree(resources, folder / "classes", dirs_exist_ok=True)
    classpath = [str(folder / "classes"), tests, *classpath]
    here = pathlib.Path(__file__).parent / adapter.name
    compiled(here.glob("*.java"), folder / "test_classes", classpath)
    options = ["-Xcheck:jni", f"-Dquire.native.dir={lib}"]
    subprocess.run(["java", *options, "-cp", ":".join([*classpath, str(folder / "test_classes")]), adapter.test, *arguments],
                   check=True)
    run_examples(adapter, folder, classpath, options[1:], arguments[0])


if __name__ == "__main__":
    main()

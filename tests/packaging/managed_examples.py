"""The examples of Java and C# in docs/examples, built from the distribution alone and run on the embedded model."""
import pathlib
import re
import shutil
import subprocess

from shell import ROOT, environment, fresh_folder, require, run, skip

EXAMPLES = ROOT / "docs/examples"
MAX_LINES = 40
# What each program prints.
EXPECTED = {
    "StreamedChat": r"(?s).+\n\w+, [1-9]\d* tokens\n", "ToolCall": r'(?s)temperature \{"city": ?"(Oslo|Rome)"\}\n.*',
    "Schema": r'\{\s*"city"\s*:\s*"(Oslo|Rome)"\s*,\s*"degrees"\s*:\s*-?\d+\s*\}\n', "Cancellation": r"(?s).*\n(CANCELLED|Cancelled)\n",
    "ManyClients": r"16 answers, [1-9]\d* tokens\n"}


def check_sources(sources):
    require({path.stem for path in sources} == set(EXPECTED), f"the examples are {sources}")
    for path in sources:
        lines = len(path.read_text(encoding="utf-8").splitlines())
        require(lines <= MAX_LINES, f"{path} has {lines} lines, more than {MAX_LINES}")


def check_version(options, path, pattern):
    """Checks that a build file needs the version of the distribution."""
    needed = re.search(pattern, path.read_text(encoding="utf-8"))
    made = next(options.dist.rglob("quire-[0-9]*.pom")).parent.name
    require(needed and needed[1] == made, f"{path} needs another version than {made}")


def run_each(options, *command):
    """Runs each program and checks its output; `command` has {} for its name."""
    for name, expected in EXPECTED.items():
        shown = run(*(str(part).replace("{}", name) for part in command), options.model, env=environment(LC_ALL="C.UTF-8"))
        require(re.fullmatch(expected, shown), f"{name} prints {shown!r}")


def java_sources():
    return sorted((EXAMPLES / "java/src/main/java").glob("*.java"))


def java_examples(options, jar):
    check_sources(java_sources())
    folder = fresh_folder(options.work / "java_examples")
    run("javac", "-Xlint:all", "-Werror", "--release", "17", "-encoding", "UTF-8", "-cp", jar, "-d", folder, *java_sources())
    run_each(options, "java", "-cp", f"{jar}:{folder}", "{}")


def built(options, tool, *command):
    """Builds a copy of the Java project with a tool. Skips the test if the tool, or a plugin of it, is not installed."""
    if shutil.which(tool) is None:
        skip(f"{tool} is not installed")
    folder = options.work / f"{tool}_examples"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(EXAMPLES / "java", folder)
    result = subprocess.run([tool, *map(str, command)], cwd=folder, text=True, capture_output=True, check=False, timeout=800)
    said = result.stdout + result.stderr
    if result.returncode != 0 and re.search("offline mode|No cached version|not been downloaded from it|No plugin found for prefix", said):
        skip(f"{tool} lacks its plugins, which ./dev artifacts brings")
    require(result.returncode == 0, f"{tool} fails:\n{said}")
    return folder


def maven_examples(options):
    check_version(options, EXAMPLES / "java/pom.xml", r"<artifactId>quire</artifactId>\s*<version>(.*?)<")
    repository = options.dist / "maven"
    # Maven keeps a released version for ever, also one of an earlier build.
    shutil.rmtree(pathlib.Path.home() / ".m2/repository/dev/quire", ignore_errors=True)
    folder = built(options, "mvn", "-q", "-B", "-o", "-Daether.offline.protocols=file", f"-Dquire.repository=file://{repository}",
                   "package", "dependency:copy-dependencies")
    run_each(options, "java", "-cp", f"{folder}/target/classes:{folder}/target/dependency/*", "{}")


def gradle_examples(options):
    check_version(options, EXAMPLES / "java/build.gradle", r"'dev\.quire:quire:(.*?)'")
    folder = built(options, "gradle", "--offline", "-q", f"-PquireRepository={options.dist / 'maven'}", "installDist")
    run_each(options, "java", "-cp", f"{folder}/build/install/examples/lib/*", "{}")


def csharp_examples(options, libraries):
    """Compiles each program with Mono's compiler, against the files that NuGet places next to it."""
    check_sources(sorted((EXAMPLES / "csharp").glob("*.cs")))
    for name in EXPECTED:
        run("mcs", "-warnaserror", f"-r:{libraries / 'Quire.dll'}", f"-main:{name}", f"-out:{libraries / name}.exe",
            *sorted((EXAMPLES / "csharp").glob("*.cs")))
    run_each(options, "mono", f"{libraries}/{{}}.exe")


def dotnet_examples(options):
    check_version(options, EXAMPLES / "csharp/Examples.csproj", r'Include="Quire" Version="(.*?)"')
    if shutil.which("dotnet") is None:
        skip("dotnet is not installed")
    folder = options.work / "dotnet_examples"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(EXAMPLES / "csharp", folder)
    for name in EXPECTED:
        run("dotnet", "build", f"-p:StartupObject={name}", f"-p:RestoreAdditionalProjectSources={options.dist}", "-o", folder / name,
            cwd=folder)
    run_each(options, "dotnet", f"{folder}/{{}}/Examples.dll")

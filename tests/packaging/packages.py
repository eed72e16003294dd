#!/usr/bin/env python3
"""The packages as users get them: all are built once and unpacked (the archive is moved after that), and programs are
built only from them. Each subcommand is one test. A test that cannot run exits with 77 and a message."""
import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile
from xml.etree import ElementTree

import bare_root
import examples
import go_site
import managed_examples
from shell import HERE, ROOT, environment, fresh_folder, require, run, skip

STORY = ROOT / "tests/bindings"
DIST = ROOT / "packaging/dist/dist.py"
POM = "{http://maven.apache.org/POM/4.0.0}"
NOT_CLASSES = ("-sources.jar", "-javadoc.jar")
LANGUAGES = ["jar", "adapters", "nuget", "go"]


def library_dir(root):
    found = sorted(root.rglob("libquire.so.*"))
    require(found, f"no libquire.so under {root}")
    return found[0].parent


def has_server(options):
    return (options.build / "bin/quire-server").exists()


def has_cuda(options):
    return (options.build / "lib/libquire_cuda.so").exists()


def has_bindings(options):
    return (options.build / "lib/quire.jar").exists()


def kinds(options):
    return ["tgz", "deb"] + (["rpm"] if shutil.which("rpmbuild") else []) + (LANGUAGES if has_bindings(options) else [])


def only(options, pattern):
    """Returns the only file of the distribution that matches; skips the test without it."""
    found = sorted(path for path in options.dist.rglob(pattern) if not path.name.endswith(NOT_CLASSES))
    if not found:
        skip(f"the distribution has no {pattern}: its tools are not installed")
    require(len(found) == 1, f"{pattern} is several files: {found}")
    return found[0]


def dist(options):
    """Builds everything, checks it against its own checksums, and unpacks the .deb and .rpm packages."""
    run(sys.executable, DIST, "--build", options.build, "--out", options.dist, "--only", *kinds(options))
    run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=options.dist)
    unpacked = fresh_folder(options.work / "unpacked")
    run("tar", "-xzf", only(options, "*.tar.gz"), "-C", unpacked)
    roots = list(unpacked.iterdir())
    require(len(roots) == 1, f"the archive has several roots: {roots}")
    shutil.rmtree(options.root, ignore_errors=True)
    shutil.move(roots[0], options.root)
    for kind in ("deb", "rpm"):
        root = fresh_folder(options.work / f"{kind}_root")
        for path in sorted(options.dist.glob(f"*.{kind}")):
            run("cmake", "-E", "tar", "xf", path, cwd=root) if kind == "rpm" else run("dpkg-deb", "-x", path, root)


def roots(options):
    """Returns the prefix of each unpacked package."""
    found = [options.root, options.work / "deb_root/usr"]
    return found + ([options.work / "rpm_root/usr"] if list(options.dist.glob("*.rpm")) else [])


def reproducible(options):
    """Checks that a second packing with another time zone, umask and language has the same bytes. Long runs include
    the slow kinds."""
    chosen = kinds(options)
    if "QUIRE_LONG_TESTS" not in os.environ:
        chosen = [kind for kind in chosen if kind not in ("deb", "rpm")]
    again = fresh_folder(options.work / "again")
    home = fresh_folder(options.work / "home")
    umask = os.umask(0o077)
    try:
        run(sys.executable, DIST, "--build", options.build, "--out", again, "--only", *chosen,
            env=environment(TZ="Pacific/Auckland", LC_ALL="C", HOME=str(home)))
    finally:
        os.umask(umask)
    compared = 0
    for path in sorted(path for path in again.rglob("*") if path.is_file()):
        name = path.relative_to(again)
        if "SHA256SUMS" in name.name or name.name.endswith(".spdx.json"):
            continue  # they list the kinds that were built
        require(path.read_bytes() == (options.dist / name).read_bytes(), f"{name} differs from one packing to the next")
        compared += 1
    require(compared >= len(chosen), f"only {compared} files were compared")


def check_library(library):
    """Checks that the shipped library does not refer to the build tree and needs only libc and libstdc++."""
    dynamic = run("readelf", "-d", library)
    require("Library soname: [libquire.so." in dynamic, f"no SONAME:\n{dynamic}")
    require(str(ROOT).encode() not in library.read_bytes(), f"{library} names a path of the build tree")
    needed = {line.split("[")[1].split("]")[0] for line in dynamic.splitlines() if "(NEEDED)" in line}
    allowed = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2",
               "libpthread.so.0", "libdl.so.2"}
    require(needed <= allowed, f"needs {sorted(needed - allowed)}")


def archive(options):
    check_library(next(library_dir(options.root).glob("libquire.so.*")))
    for path in ("bin/quire", "include/quire/quire.h", "share/quire/models/story-15m-exl2-4.0bpw/config.json",
                 "share/man/man1/quire.1", "share/doc/libquire0.1/NOTICES"):
        require((options.root / path).exists(), f"{path} is not in the archive")
    notices = (options.root / "share/doc/libquire0.1/NOTICES").read_text(encoding="utf-8")
    for part in ("pcre2", "utf8proc", "fmt", "gsl", "nlohmann-json"):
        require(f"It contains {part} (" in notices, f"the notices do not name {part}")


def check_function_pages(folder, headers):
    """Checks that each function has a page, that each page has text, and that man reads all of them without a warning."""
    declared = {name for path in headers.glob("*.h") for name in
                re.findall(r"QUIRE_API [^;(]*?\b(quire_\w+)\(", path.read_text(encoding="utf-8"))}
    missing = [name for name in declared if not (folder / f"{name}.3").exists()]
    require(len(declared) > 300 and not missing, f"of {len(declared)} functions these have no manual page: {missing[:8]}")
    for path in sorted(folder.glob("*.3")):
        text = path.read_text(encoding="utf-8")
        leads = re.fullmatch(r"\.so man3/(quire_\w+\.3)\n", text)
        require(leads is None or f".SS {path.stem}\n" in (folder / leads[1]).read_text(encoding="utf-8"),
                f"{path} leads to a page without the function")
        if leads is None and shutil.which("man"):
            warned = subprocess.run(["man", "--warnings", "-l", str(path)], text=True, capture_output=True,
                                    env=environment(LC_ALL="C.UTF-8", MANPAGER="cat"))
            require(not warned.stderr.strip() and len(warned.stdout) > 400, f"man reads {path} so: {warned.stderr}")


def reference(options):
    """Checks that every subcommand is in the manual page and in each completion, which the installed shells can read."""
    share = options.root / "share"
    places = {"man": share / "man/man1/quire.1", "bash": share / "bash-completion/completions/quire",
              "zsh": share / "zsh/site-functions/_quire", "fish": share / "fish/vendor_completions.d/quire.fish"}
    shown = run(options.root / "bin/quire", "--help").split("Subcommands:")[1].split("Environment:")[0]
    commands = [line.split()[0] for line in shown.splitlines() if line.strip()]
    require(len(commands) >= 10, f"--help names {commands}")
    for kind, path in places.items():
        text = path.read_text(encoding="utf-8")
        missing = [name for name in commands if name not in text]
        require(not missing and "max-new-tokens" in text.replace("\\-", "-"), f"{path} lacks {missing}")
        if kind != "man" and shutil.which(kind):
            run(kind, "-n", path)
    warned = subprocess.run(["man", "--warnings", "-l", str(places["man"])], text=True, capture_output=True,
                            env=environment(LC_ALL="C.UTF-8", MANPAGER="cat")) if shutil.which("man") else None
    require(warned is None or not warned.stderr.strip(), f"man warns: {warned and warned.stderr}")
    check_function_pages(share / "man/man3", options.root / "include/quire")
    offered = run("bash", "-c", f"source {places['bash']}; COMP_WORDS=(quire gen); COMP_CWORD=1; _quire; "
                  "echo ${COMPREPLY[@]}; COMP_WORDS=(quire generate --activation-dtype ''); COMP_CWORD=3; _quire; "
                  "echo ${COMPREPLY[@]}")
    require(offered == "generate\nfull i8 f8\n", f"bash offers {offered!r}")


def limits(options):
    """Checks that violations of a limit are reported: a newer symbol, a larger file, a file without a limit."""
    sys.path.insert(0, str(DIST.parent))
    import limits as checked  # noqa: PLC0415, of the script that is tested
    library = library_dir(options.root) / "libquire.so.0.1"
    require(not list(checked.symbol_breaches(library)), "the library is over its own limit")
    needed = checked.newest_symbols(library)
    require(set(needed) >= {"GLIBC", "GLIBCXX"}, f"of what the library needs only this was found: {needed}")
    checked.LIMITS["symbols"] = {**needed, "GLIBC": "2.17", "GLIBCXX": "3.4.9"}
    told = "".join(checked.symbol_breaches(library))
    require("GLIBC_2.17" in told and "GLIBCXX_3.4.9" in told, f"lower limits are not told: {told!r}")
    folder = fresh_folder(options.work / "limits")
    (folder / "SHA256SUMS").write_bytes(bytes(17 << 10))
    (folder / "stranger").touch()
    told = list(checked.size_breaches(folder))
    require(len(told) == 2 and "17 KiB" in told[0] and "no limit" in told[1], f"sizes: {told}")


def api_reference(options):
    """Checks that doxygen understands every header, and refuses one with an undocumented function."""
    if not shutil.which("doxygen"):
        skip("doxygen is not installed")
    tree = fresh_folder(options.work / "api_reference")
    shutil.copytree(ROOT / "capi/include", tree / "capi/include")
    shutil.copytree(ROOT / "packaging/reference", tree / "packaging/reference")
    doxygen = ["doxygen", "packaging/reference/Doxyfile"]
    variables = environment(QUIRE_VERSION="0", QUIRE_REFERENCE=str(tree))
    run(*doxygen, cwd=tree, env=variables)
    require("quire_job_submit" in (tree / "html/job_8h.html").read_text(encoding="utf-8"), "job.h is not in the reference")
    header = tree / "capi/include/quire/job.h"
    header.write_text(header.read_text(encoding="utf-8").replace(
        "QUIRE_API quire_job* quire_job_submit(", "QUIRE_API int quire_bare(int a);\nQUIRE_API quire_job* quire_job_submit("),
        encoding="utf-8")
    refused = subprocess.run(doxygen, cwd=tree, env=variables, text=True, capture_output=True)
    require(refused.returncode != 0 and "quire_job_submit" in refused.stderr,
            f"a function without a comment is let through: {refused.stderr}")


def cmake_client(options):
    for number, root in enumerate(roots(options)):
        build = fresh_folder(options.work / f"cmake_client{number}")
        base = ["cmake", "-S", HERE / "find_package_client", f"-DSTORY_SOURCE={STORY / 'story.c'}",
                f"-DCMAKE_PREFIX_PATH={root}"]
        if root.parent.name == "rpm_root":  # Debian's CMake does not search lib64 by itself
            base.append(f"-Dquire_DIR={library_dir(root) / 'cmake/quire'}")
        run(*base, "-B", build, "-DQUIRE_WANTED_VERSION=0.1", env=environment())
        run("cmake", "--build", build, env=environment())
        run(build / "client", options.model, options.prompt, options.expected, env=environment())
    refused = subprocess.run([str(part) for part in base] + ["-B", str(build / "refused"), "-DQUIRE_WANTED_VERSION=9.0"],
                             text=True, capture_output=True, env=environment())
    require(refused.returncode != 0 and "9.0" in refused.stderr, "find_package(quire 9.0) is not refused")


def package_flags(root):
    variables = environment(PKG_CONFIG_PATH=str(library_dir(root) / "pkgconfig"))
    return run("pkg-config", "--cflags", "--libs", "quire", env=variables).split()


def pkg_config_client(options):
    for root in roots(options):
        folder = fresh_folder(options.work / "pkg_config_client")
        run("cc", "-std=c99", "-Wall", "-Werror", "-o", folder / "client", STORY / "story.c", *package_flags(root))
        run(folder / "client", options.model, options.prompt, options.expected,
            env=environment(LD_LIBRARY_PATH=str(library_dir(root))))


def readme_client(options):
    """Builds the first C example of the README by its own instructions, and generates a text."""
    folder = fresh_folder(options.work / "readme_client")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (folder / "app.c").write_text(readme.split("```c\n")[1].split("```")[0], encoding="utf-8")
    run("cc", "-Wall", "-Wextra", "-Werror", "-o", folder / "app", folder / "app.c", *package_flags(options.root))
    text = run(folder / "app", options.model, env=environment(LD_LIBRARY_PATH=str(library_dir(options.root))))
    require(len(text) > 200, f"it wrote {text!r}")


def dlopen_client(options):
    folder = fresh_folder(options.work / "dlopen_client")
    run("cc", "-std=gnu99", "-Wall", "-Werror", f"-I{options.root}/include", "-o", folder / "client",
        HERE / "dlopen_client.c", "-ldl")
    library = next(library_dir(options.root).glob("libquire.so.*"))
    run(folder / "client", library, options.model, options.prompt, options.expected, env=environment())


def java_client(options):
    """Uses the jar alone, on the class path and on the module path. Its libraries are unpacked and leave no files."""
    jar = only(options, "quire-[0-9]*.jar")
    folder = fresh_folder(options.work / "java_client")
    temporary = fresh_folder(folder / "tmp")
    sources = [STORY / "java/Fixture.java", STORY / "java/StoryTest.java"]
    inputs = [options.model, options.prompt, options.expected]
    base = ["java", f"-Djava.io.tmpdir={temporary}"]
    variables = environment(LC_ALL="C.UTF-8")
    run("javac", "-Xlint:all", "-Werror", "--release", "17", "-cp", jar, "-d", folder / "classes", *sources)
    run(*base, "-cp", f"{jar}:{folder / 'classes'}", "story.StoryTest", *inputs, env=variables)
    (folder / "module-info.java").write_text("module story { requires dev.quire; }\n", encoding="utf-8")
    run("javac", "--release", "17", "--module-path", jar, "-d", folder / "module", folder / "module-info.java", *sources)
    run(*base, "--module-path", f"{jar}:{folder / 'module'}", "-m", "story/story.StoryTest", *inputs, env=variables)
    left = [path for path in temporary.iterdir() if path.name.startswith("quire")]
    require(not left, f"the jar leaves {left}")


def require_pom(pom):
    """Checks that a pom has what a public repository requires."""
    root = ElementTree.parse(pom).getroot()
    for path in ("name", "description", "url", "licenses/license/name", "licenses/license/url", "developers/developer/name",
                 "scm/connection", "scm/developerConnection", "scm/url", "scm/tag"):
        text = root.findtext("/".join(POM + part for part in path.split("/")), "")
        require(text.strip() and text != "HEAD", f"{pom}: {path} is {text!r}")


def maven(options):
    """Checks that each artifact is complete: sources, reference, checksums and pom; and that the classes name their
    parameters and the jar its platform, which it refuses to leave."""
    poms = sorted(options.dist.rglob("*.pom"))
    require(poms, "the distribution has no pom")
    for pom in poms:
        require_pom(pom)
        for kind, name in (("", ".class"), ("-sources", ".java"), ("-javadoc", "index.html")):
            jar = pom.with_name(f"{pom.stem}{kind}.jar")
            require(any(one.endswith(name) for one in zipfile.ZipFile(jar).namelist()), f"{jar} has no {name}")
        for path in (path for path in pom.parent.iterdir() if path.suffix in (".jar", ".pom")):
            for digest in ("md5", "sha1", "sha256", "sha512"):
                given = path.with_name(f"{path.name}.{digest}").read_text(encoding="utf-8")
                require(given == hashlib.new(digest, path.read_bytes()).hexdigest(), f"{path.name}.{digest} is wrong")
    jar = only(options, "quire-[0-9]*.jar")
    require("MethodParameters:" in run("javap", "-v", "-cp", jar, "dev.quire.Cache"), "parameters have no names")
    manifest = zipfile.ZipFile(jar).read("META-INF/MANIFEST.MF").decode()
    require("Quire-Platform: linux-x86_64" in manifest, manifest)
    folder = fresh_folder(options.work / "maven")
    run("javac", "--release", "17", "-cp", jar, "-d", folder, STORY / "java/Fixture.java", STORY / "java/PlatformTest.java")
    run("java", "-Dos.arch=aarch64", "-cp", f"{jar}:{folder}", "story.PlatformTest", "runs on linux-aarch64")


def adapters(options):
    """Checks that each adapter's jar has a class for every file in its source jar, and that its pom names its
    framework."""
    found = {"quire-langchain4j": "langchain4j-core", "quire-spring-ai": "spring-ai-model"}
    poms = {path: needs for name, needs in found.items() for path in options.dist.rglob(f"{name}-*.pom")}
    if not poms:
        skip("the distribution has no adapters: ./dev artifacts downloads their frameworks")
    for pom, needs in poms.items():
        require({"quire", needs} <= {entry.text for entry in ElementTree.parse(pom).iter(POM + "artifactId")}, pom)
        classes = set(zipfile.ZipFile(pom.with_suffix(".jar")).namelist())
        sources = zipfile.ZipFile(pom.with_name(pom.stem + "-sources.jar")).namelist()
        written = {name.removesuffix(".java") + ".class" for name in sources if name.endswith(".java")}
        require(written and written <= classes, f"{pom.stem}: no class of {sorted(written - classes)}")
        module = run("jar", "--describe-module", "--file", pom.with_suffix(".jar"))
        require("dev.quire." in module, f"{pom.stem}: the module is {module}")


def unpack_nuget(package, folder):
    """Puts the files into the folder that NuGet places next to a program: assemblies, and the libraries of the
    platform. Checks that the package has a readme and describes the members of its assembly."""
    with zipfile.ZipFile(package) as parts:
        names = parts.namelist()
        nuspec = next((name for name in names if name.endswith(".nuspec")), None)
        require(nuspec and b"<readme>README.md</readme>" in parts.read(nuspec), f"{package} has no nuspec with a readme")
        require(len(parts.read("README.md")) > 300, f"{package} has no readme")
        for name in names:
            if name.startswith(("lib/", "runtimes/linux-x64/native/")):
                (folder / pathlib.Path(name).name).write_bytes(parts.read(name))
            if name.endswith(".dll"):
                notes = parts.read(name.replace(".dll", ".xml")).decode()
                require(notes.count("<summary>") > 5, f"{name} has no documentation")


def csharp_client(options):
    """Uses the files that NuGet places next to a program."""
    folder = fresh_folder(options.work / "csharp_client")
    unpack_nuget(only(options, "Quire.[0-9]*.nupkg"), folder)
    run("mcs", "-warnaserror", f"-r:{folder / 'Quire.dll'}", f"-out:{folder / 'story.exe'}",
        STORY / "csharp/Fixture.cs", STORY / "csharp/StoryTest.cs")
    run("mono", folder / "story.exe", options.model, options.prompt, options.expected,
        env=environment(LC_ALL="C.UTF-8"))


def java_examples(options):
    managed_examples.java_examples(options, only(options, "quire-[0-9]*.jar"))


def csharp_examples(options):
    package, folder = only(options, "Quire.[0-9]*.nupkg"), fresh_folder(options.work / "csharp_examples")
    unpack_nuget(package, folder)
    managed_examples.csharp_examples(options, folder)


def extensions_ai_client(options):
    """Compiles the tests of Quire.Extensions.AI against the packages, and runs them under CoreCLR. References.cs checks
    that the assembly refers to nothing that an SDK lacks."""
    sys.path.insert(0, str(DIST.parent))
    import dotnet  # noqa: PLC0415, of the scripts that are tested
    package = only(options, "Quire.Extensions.AI.*.nupkg")
    folder = fresh_folder(options.work / "extensions_ai_client")
    for one in (package, only(options, "Quire.[0-9]*.nupkg")):
        unpack_nuget(one, folder)
    library, quire = folder / "Quire.Extensions.AI.dll", folder / "Quire.dll"
    checks = dotnet.compiled(folder / "References.dll", [HERE / "References.cs"], [])
    dotnet.run(checks, folder, [library, 100])
    sources = [STORY / "csharp/extensions-ai/ExtensionsAITest.cs", STORY / "csharp/Fixture.cs"]
    tests = dotnet.compiled(folder / "ExtensionsAITest.dll", sources, [quire, library], "-nullable:annotations")
    dotnet.run(tests, folder, [options.model, options.prompt, options.expected])


def left_out(options):
    """Checks that a distribution without frameworks is made, and names what it lacks."""
    folder = fresh_folder(options.work / "left_out")
    nothing = environment(QUIRE_ARTIFACTS=str(folder / "no_artifacts"))
    shown = run(sys.executable, DIST, "--build", options.build, "--out", folder / "dist", "--only", "adapters", "nuget", env=nothing)
    for name in ("quire-langchain4j", "quire-spring-ai", "Quire.Extensions.AI"):
        require(f"dist: left out: {name}: " in shown, f"{name} is not named:\n{shown}")
    require([path.name for path in (folder / "dist").glob("*.nupkg")] == [only(options, "Quire.[0-9]*.nupkg").name], "the packages")


def require_modules(options):
    """Checks that each module has its own files, and that the module for programs without cgo has none of the
    other's."""
    whole = zipfile.ZipFile(only(options, "quire/@v/v*.zip")).namelist()
    nested = zipfile.ZipFile(only(options, "purego/@v/v*.zip")).namelist()
    require(any(name.endswith("/quire.go") for name in whole) and not any("/purego/" in name for name in whole), f"{whole}")
    require({name.rpartition("/")[2] for name in nested} == {"LICENSE", "doc.go", "go.mod", "go.sum", "purego.go"}, f"{nested}")
    version = only(options, "quire/@v/v*.info").stem
    needs = only(options, "purego/@v/v*.mod").read_text(encoding="utf-8")
    require(f"quire.dev/quire {version}\n" in needs, f"the nested module needs another version:\n{needs}")


def go_client(options):
    """Uses Quire as a module, named by its path, from a proxy that is a folder, against the library of the package.
    Long runs compile it, which takes a minute."""
    require_modules(options)
    folder = fresh_folder(options.work / "go_client")
    shutil.copy(STORY / "go/story_test.go", folder)
    (folder / "go.mod").write_text("module example.org/story\n\ngo 1.19\n", encoding="utf-8")
    version = only(options, "quire/@v/v*.info").stem
    prefix = options.work / "deb_root/usr"
    variables = environment(
        GOPROXY=f"file://{options.dist / 'go'}", GONOSUMDB="quire.dev", GOFLAGS="-modcacherw -trimpath", GOTOOLCHAIN="local",
        GOMODCACHE=str(folder / "modules"), GOCACHE=str(options.build / "go"), CGO_ENABLED="1",
        PKG_CONFIG_PATH=str(library_dir(prefix) / "pkgconfig"), LD_LIBRARY_PATH=str(library_dir(prefix)),
        QUIRE_TEST_MODEL=str(options.model), QUIRE_TEST_PROMPT=str(options.prompt),
        QUIRE_TEST_EXPECTED=str(options.expected))
    run("go", "get", f"quire.dev/quire@{version}", cwd=folder, env=variables)
    run("go", "mod", "tidy", cwd=folder, env=variables)  # the module has no dependency outside the proxy
    listed = run("go", "list", "-deps", "-test", "-f", "{{if .Module}}{{.ImportPath}}{{end}}", ".", cwd=folder, env=variables)
    require("quire.dev/quire/internal/native" in listed, f"the module lacks its native layer: {listed}")
    if "QUIRE_LONG_TESTS" in os.environ:
        run("go", "test", "-count=1", ".", cwd=folder, env=variables)


def c_examples(options):
    examples.native(options, "c", "c")


def cpp_examples(options):
    examples.native(options, "cpp", "cpp")


def go_examples(options):
    examples.go(options, only(options, "quire/@v/v*.info").stem, library_dir(options.work / "deb_root/usr"))


def go_site_client(options):
    """Resolves the modules by their paths alone, from a web server that has only the files of the distribution."""
    if not shutil.which("openssl"):
        skip("openssl is not installed")
    version = only(options, "quire/@v/v*.info").stem
    folder = fresh_folder(options.work / "go_site_client")
    (folder / "go.mod").write_text("module example.org/site\n\ngo 1.19\n", encoding="utf-8")
    with go_site.served(options.dist / "go", options.work / "go_site") as found:
        variables = environment(GOPROXY="direct", GONOSUMDB="quire.dev", GOFLAGS="-mod=mod -modcacherw", GOTOOLCHAIN="local",
                                GOMODCACHE=str(folder / "modules"), GOCACHE=str(options.build / "go"), **found)
        for module in ("quire.dev/quire", "quire.dev/quire/purego"):
            shown = run("go", "list", "-m", "-versions", module, cwd=folder, env=variables)
            require(shown.split() == [module, version], f"{module} resolves to {shown!r}")
        run("go", "mod", "download", f"quire.dev/quire@{version}", cwd=folder, env=variables)
        require((folder / f"modules/quire.dev/quire@{version}/quire.go").exists(), "the module has no sources")


def generate(command, options):
    """Returns the text that the packaged command generates with the packaged model."""
    prompt = options.prompt.read_text(encoding="utf-8")
    text = run(*command, "generate", "--prompt", prompt, "--temperature", "0", "--max-new-tokens", "48", "--quiet",
               env=environment())
    expected = options.expected.read_text(encoding="utf-8") + "\n"
    require(text == expected, f"expected {expected!r}, got {text!r}")


def chat(command):
    text = run(*command, "chat", "--max-new-tokens", "16", "--temperature", "0", input="Once upon a time\n", env=environment())
    require(text.strip(), "the chat printed nothing")


def check_server(prefix, options):
    """Checks that the server runs from its folder, does not refer to the build tree, and accepts its example with the
    embedded model."""
    program = prefix / "bin/quire-server"
    require(str(ROOT) not in run("readelf", "-d", program), "the server refers to the build tree")
    version = run(program, "--version", env=environment())
    require(version.startswith("quire-server 0."), f"its version is {version!r}")
    examples = prefix / "share/doc/quire-server/examples"
    text = (examples / "server.json").read_text(encoding="utf-8")
    installed = "/usr/share/quire/models/story-15m-exl2-4.0bpw"
    require(installed in text, "the example does not name the installed model")
    example = options.work / "example.json"
    example.write_text(text.replace(installed, str(options.model)), encoding="utf-8")
    run(program, "--config", example, "--check", env=environment())
    for name in ("Dockerfile", "compose.yaml", "prometheus.yaml", "alerts.yaml", "quire.json", "provisioning.yaml"):
        require((examples / name).exists(), f"the example {name} is not in the package")
    for path in ("share/man/man1/quire-server.1", "lib/systemd/system/quire-server.service"):
        require((prefix / path).exists(), f"{path} is not in the package")


def command(options):
    generate([options.root / "bin/quire"], options)
    if has_server(options):
        check_server(options.root, options)


def deb(options):
    """Checks the names, files and dependencies of the packages."""
    packages = {}
    for path in options.dist.glob("*.deb"):
        fields = run("dpkg-deb", "-f", path, "Package", "Depends", "Recommends", "Version", "Architecture")
        packages[fields.split("Package: ")[1].split()[0]] = fields
    server = {"quire-server"} if has_server(options) else set()
    cuda = {"libquire0.1-cuda"} if has_cuda(options) else set()
    require(set(packages) == {"libquire0.1", "quire", "libquire-dev"} | server | cuda, f"packages: {sorted(packages)}")
    require("libc6 (>=" in packages["libquire0.1"], f"libquire0.1 depends on no libc6:\n{packages['libquire0.1']}")
    for name in {"quire"} | server:
        require("libquire0.1 (>=" in packages[name], f"{name} depends on no libquire0.1:\n{packages[name]}")
    require("libcurl4" in packages["quire"].partition("Recommends: ")[2], f"quire recommends no libcurl4:\n{packages['quire']}")
    require("libcurl" not in packages["libquire0.1"], f"the library needs libcurl:\n{packages['libquire0.1']}")
    if server:
        image = (ROOT / "packaging/server/docker/Dockerfile").read_text(encoding="utf-8")
        copied = next(line for line in image.splitlines() if line.startswith("COPY ")).split()[1:-1]
        require({name for name in packages for pattern in copied if list(options.dist.glob(pattern)) and pattern == f"{name}_*.deb"}
                == {"libquire0.1", "quire-server"}, f"the image takes other packages: {copied}")
    for name in {"libquire-dev"} | cuda:
        require("libquire0.1 (=" in packages[name], f"{name} belongs to one library:\n{packages[name]}")
    root = options.work / "deb_root"
    triplet = run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
    require(library_dir(root) == root / "usr/lib" / triplet, f"the library lies in {library_dir(root)}")
    for path in root.rglob("*"):
        require(path.is_dir() or path.is_relative_to(root / "usr"), f"{path} lies outside /usr")
    runtime = next(options.dist.glob("libquire0.1_*.deb"))
    control = run("dpkg-deb", "-I", runtime, "symbols", "shlibs").splitlines()
    require("libquire 0.1 libquire0.1 (>= 0.1.0)" in control, f"shlibs and symbols: {control[:3]} ...")
    exported = {line.split()[-1].split("@")[0] for line in
                run("nm", "-D", "--defined-only", next(library_dir(root).glob("libquire.so.*"))).splitlines()}
    named = {line.split("@")[0].strip() for line in control if "@" in line}
    require(exported == named, f"the symbols file and the library differ: {sorted(exported ^ named)[:8]}")


def in_bare_root(options, packages, root):
    """Installs the packages in a root with only their dependencies, uses them, and removes them; then every file is
    as before."""
    before = root.snapshot()
    names = root.install(packages)
    inside = root.command("quire")
    generate(inside, options)
    chat(inside)
    if has_server(options):
        require("quire-server 0." in run(*root.command("quire-server"), "--version"), "the server tells no version")
    if has_cuda(options):
        told = run(*inside, "diagnose")
        require("libquire_cuda" not in told and "cuda" in told, f"the backend is not found, or why it has no device:\n{told}")
    root.remove(names)
    bare_root.require_same(before, root.snapshot())


def deb_bare_root(options):
    """Installs with dpkg."""
    packages = sorted(options.dist.glob("*.deb"))
    require(packages, "the distribution has no .deb")
    in_bare_root(options, packages, bare_root.DebianRoot(fresh_folder(options.work / "deb_bare_root")))


def rpm_bare_root(options):
    """Does the same with rpm, in a root whose database has only the system's libraries."""
    packages = sorted(options.dist.glob("*.rpm"))
    if not packages:
        skip("rpmbuild is not installed")
    in_bare_root(options, packages, bare_root.RpmRoot(fresh_folder(options.work / "rpm_bare_root")))


TESTS = {function.__name__: function for function in
         (dist, archive, limits, reproducible, reference, api_reference, cmake_client, c_examples, cpp_examples,
          go_examples, go_site_client, pkg_config_client, readme_client, dlopen_client, java_client, maven, adapters,
          csharp_client, java_examples, managed_examples.maven_examples, managed_examples.gradle_examples,
          csharp_examples, managed_examples.dotnet_examples, extensions_ai_client, left_out, go_client, command, deb,
          deb_bare_root, rpm_bare_root)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("test", choices=TESTS)
    for name in ("build", "work", "model", "prompt", "expected"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.root = options.work / "moved"
    options.dist = options.work / "dist"
    TESTS[options.test](options)


if __name__ == "__main__":
    main()

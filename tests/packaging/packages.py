#!/usr/bin/env python3
"""Packs, unpacks and uses the packages as a user would: the archive in a folder of its own, moved after it was
unpacked, and the .deb packages in a scratch root. One subcommand is one test."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
STORY = HERE.parent / "bindings" / "story.c"


def run(*command, **kwargs):
    """Runs a command; what it prints is shown where it fails."""
    result = subprocess.run([str(part) for part in command], text=True, capture_output=True, **kwargs)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}exit status {result.returncode}")
    return result.stdout


def require(holds, message):
    if not holds:
        sys.exit(message)


def fresh_folder(path):
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def library_dir(root):
    found = sorted(root.rglob("libquire.so.*"))
    require(found, f"no libquire.so under {root}")
    return found[0].parent


def environment(**variables):
    """The caller's environment without what could lead to another library."""
    kept = {key: value for key, value in os.environ.items()
            if key not in ("LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "CMAKE_PREFIX_PATH")}
    return kept | variables


def pack(options, kind):
    folder = fresh_folder(options.work / kind)
    run("cpack", "--config", options.build / "CPackConfig.cmake", "-G", kind, "-B", folder, cwd=options.build)
    return folder


def check_library(library):
    """The shipped library asks for nothing of the build tree, and for no more than libc and libstdc++."""
    dynamic = run("readelf", "-d", library)
    require("Library soname: [libquire.so." in dynamic, f"no SONAME:\n{dynamic}")
    require(str(HERE.parents[1]) not in dynamic, f"a path of the build tree:\n{dynamic}")
    needed = {line.split("[")[1].split("]")[0] for line in dynamic.splitlines() if "(NEEDED)" in line}
    allowed = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2",
               "libpthread.so.0", "libdl.so.2"}
    require(needed <= allowed, f"needs {sorted(needed - allowed)}")


def tgz(options):
    """Packs and unpacks the archive, then moves it: nothing in it may know where it lay."""
    archives = list(pack(options, "TGZ").glob("*.tar.gz"))
    require(len(archives) == 1, f"expected one archive: {archives}")
    unpacked = fresh_folder(options.work / "unpacked")
    run("tar", "-xzf", archives[0], "-C", unpacked)
    roots = list(unpacked.iterdir())
    require(len(roots) == 1, f"the archive has several roots: {roots}")
    shutil.rmtree(options.root, ignore_errors=True)
    shutil.move(roots[0], options.root)
    check_library(next(library_dir(options.root).glob("libquire.so.*")))
    for path in ("bin/quire", "include/quire/quire.h", "share/quire/models/story-15m-exl2-4.0bpw/config.json"):
        require((options.root / path).exists(), f"{path} is not in the archive")


def cmake_client(options):
    build = fresh_folder(options.work / "cmake_client")
    base = ["cmake", "-S", HERE / "find_package_client", f"-DSTORY_SOURCE={STORY}",
            f"-DCMAKE_PREFIX_PATH={options.root}"]
    run(*base, "-B", build, "-DQUIRE_WANTED_VERSION=0.1", env=environment())
    run("cmake", "--build", build, env=environment())
    run(build / "client", options.model, options.prompt, options.expected, env=environment())
    refused = subprocess.run([str(part) for part in base] + ["-B", str(build / "refused"), "-DQUIRE_WANTED_VERSION=9.0"],
                             text=True, capture_output=True, env=environment())
    require(refused.returncode != 0 and "9.0" in refused.stderr, "find_package(quire 9.0) is not refused")


def pkg_config_client(options):
    folder = fresh_folder(options.work / "pkg_config_client")
    variables = environment(PKG_CONFIG_PATH=str(library_dir(options.root) / "pkgconfig"))
    flags = run("pkg-config", "--cflags", "--libs", "quire", env=variables).split()
    run("cc", "-std=c99", "-Wall", "-Werror", "-o", folder / "client", STORY, *flags, env=variables)
    run(folder / "client", options.model, options.prompt, options.expected,
        env=environment(LD_LIBRARY_PATH=str(library_dir(options.root))))


def readme_client(options):
    """The first C example of the README, built as it says, generates a text."""
    folder = fresh_folder(options.work / "readme_client")
    readme = (HERE.parents[1] / "README.md").read_text(encoding="utf-8")
    (folder / "app.c").write_text(readme.split("```c\n")[1].split("```")[0], encoding="utf-8")
    variables = environment(PKG_CONFIG_PATH=str(library_dir(options.root) / "pkgconfig"))
    flags = run("pkg-config", "--cflags", "--libs", "quire", env=variables).split()
    run("cc", "-Wall", "-Wextra", "-Werror", "-o", folder / "app", folder / "app.c", *flags, env=variables)
    text = run(folder / "app", options.model, env=environment(LD_LIBRARY_PATH=str(library_dir(options.root))))
    require(len(text) > 200, f"it wrote {text!r}")


def dlopen_client(options):
    folder = fresh_folder(options.work / "dlopen_client")
    run("cc", "-std=gnu99", "-Wall", "-Werror", f"-I{options.root}/include", "-o", folder / "client",
        HERE / "dlopen_client.c", "-ldl")
    library = next(library_dir(options.root).glob("libquire.so.*"))
    run(folder / "client", library, options.model, options.prompt, options.expected, env=environment())


def generate(command, options):
    """The text that the packaged command generates with the packaged model."""
    prompt = options.prompt.read_text(encoding="utf-8")
    text = run(command, "generate", "--prompt", prompt, "--temperature", "0", "--max-new-tokens", "48", "--quiet",
               env=environment())
    expected = options.expected.read_text(encoding="utf-8") + "\n"
    require(text == expected, f"expected {expected!r}, got {text!r}")


def check_server(prefix):
    """The server runs from where it lies, asks for nothing of the build tree, and takes its example."""
    program = prefix / "bin" / "quire-server"
    require(str(HERE.parents[1]) not in run("readelf", "-d", program), "the server knows the build tree")
    version = run(program, "--version", env=environment())
    require(version.startswith("quire-server 0."), f"its version is {version!r}")
    example = prefix / "share" / "doc" / "quire-server" / "examples" / "server.json"
    run(program, "--config", example, "--check", env=environment())
    for path in ("share/man/man1/quire-server.1", "lib/systemd/system/quire-server.service"):
        require((prefix / path).exists(), f"{path} is not in the package")


def command(options):
    generate(options.root / "bin" / "quire", options)
    if (options.root / "bin" / "quire-server").exists():
        check_server(options.root)


def deb(options):
    """The packages, their dependencies, and the command in a scratch root."""
    packages = {}
    for path in pack(options, "DEB").glob("*.deb"):
        fields = run("dpkg-deb", "-f", path, "Package", "Depends", "Version", "Architecture")
        packages[fields.split("Package: ")[1].split()[0]] = (path, fields)
    server = {"quire-server"} if (options.build / "bin" / "quire-server").exists() else set()
    require(set(packages) == {"libquire0.1", "quire", "libquire-dev"} | server, f"packages: {sorted(packages)}")
    require("libc6" in packages["libquire0.1"][1], f"libquire0.1 depends on no libc6:\n{packages['libquire0.1'][1]}")
    for name in {"quire", "libquire-dev"} | server:
        require("libquire0.1 (=" in packages[name][1], f"{name} depends on no libquire0.1:\n{packages[name][1]}")
    root = fresh_folder(options.work / "deb_root")
    for path, _ in packages.values():
        run("dpkg-deb", "-x", path, root)
    for path in root.rglob("*"):
        require(path.is_dir() or path.is_relative_to(root / "usr"), f"{path} lies outside /usr")
    generate(root / "usr" / "bin" / "quire", options)
    if server:
        check_server(root / "usr")


TESTS = {function.__name__: function for function in
         (tgz, cmake_client, pkg_config_client, readme_client, dlopen_client, command, deb)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("test", choices=TESTS)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--prompt", type=pathlib.Path, required=True)
    parser.add_argument("--expected", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.root = options.work / "moved"
    TESTS[options.test](options)


if __name__ == "__main__":
    main()

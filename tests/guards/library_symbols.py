#!/usr/bin/env python3
"""Symbols of the built library: it exports exactly the functions that the public headers declare, each with a
symbol version, and imports no function that ends, prints from or reconfigures the host's process."""
import re

import guard

DECLARATION = re.compile(r"QUIRE_API\s[^;]*?\b(quire_\w+)\s*\(", re.DOTALL)

# Functions that a library must not call in a host's process. __cxa_atexit indicates a static object with a
# destructor, which would run while engine threads still run.
FORBIDDEN = {
    "abort", "exit", "_exit", "_Exit", "quick_exit", "__assert_fail", "signal", "sigaction", "bsd_signal",
    "setlocale", "uselocale", "fork", "vfork", "system", "popen", "execve", "longjmp", "__longjmp_chk", "siglongjmp",
    "setenv", "putenv", "unsetenv", "srand", "rand", "srandom", "random", "chdir", "umask", "printf", "puts",
    "__printf_chk", "putchar", "stdout", "__cxa_atexit", "atexit", "at_quick_exit", "alarm", "setitimer",
}
FORBIDDEN_CXX = re.compile(r"^_ZNSt8ios_base4InitC|^_ZSt4cout|^_ZSt4cerr|^_ZSt4clog|basic_regex|^_ZNSt6locale6globalE")


def declared(tree):
    names = set()
    for path in tree.select(".h", under=("capi/include/quire/",)):
        names |= set(DECLARATION.findall(re.sub(r"/\*.*?\*/", "", tree.read(path), flags=re.DOTALL)))
    if not names:
        raise guard.GuardError("the public headers declare nothing")
    return names


def symbols(library, which):
    """Returns the names that `nm` prints, without the version."""
    lines = guard.run("nm", "-D", which, "--format=posix", str(library)).splitlines()
    return [line.split()[0] for line in lines if line.strip()]


def check_names(declared_names, exported, undefined):
    """`exported` has names with their version, "name@@VERSION"; `undefined` has names."""
    breaches = []
    plain = {name.split("@")[0] for name in exported if not re.fullmatch(r"QUIRE_[\w.]+(@@QUIRE_[\w.]+)?", name)}
    breaches += [f"declared but not exported: {name}" for name in sorted(declared_names - plain)]
    breaches += [f"exported but not declared: {name}" for name in sorted(plain - declared_names)]
    breaches += [f"exported without a version: {name}" for name in sorted(exported)
                 if name in declared_names]
    for name in sorted({name.split("@")[0] for name in undefined}):
        if name in FORBIDDEN or FORBIDDEN_CXX.search(name):
            breaches.append(f"asks for {name}, which has no place in a library")
    return breaches


def check(tree):
    if tree.build is None:
        raise guard.GuardError("--build is missing")
    if (tree.build / "symbols.txt").exists():  # replaces a library in the self-test
        exported, undefined = [line.split() for line in (tree.build / "symbols.txt").read_text().split("\n")[:2]]
    else:
        library = tree.build / "lib" / "libquire.so"
        if not library.exists():
            raise guard.GuardError(f"{library} is missing")
        exported, undefined = symbols(library, "--defined-only"), symbols(library, "--undefined-only")
    return check_names(declared(tree), exported, undefined)


HEADER = "/* QUIRE_API int quire_c(void); */\nQUIRE_API int quire_a(int x,\n  int y);\nQUIRE_API quire_t* quire_b(void);\n"


def case(exported, undefined):
    return {"capi/include/quire/a.h": HEADER, "symbols.txt": f"{exported}\n{undefined}\n"}


SELF_TESTS = [
    ("as declared", case("quire_a@@QUIRE_0 quire_b@@QUIRE_0 QUIRE_0", "malloc free"), 0),
    ("one too few", case("quire_a@@QUIRE_0", "malloc"), 1),
    ("one too many", case("quire_a@@QUIRE_0 quire_b@@QUIRE_0 quire_c@@QUIRE_0", "malloc"), 1),
    ("a leaked C++ name", case("quire_a@@QUIRE_0 quire_b@@QUIRE_0 _ZN5quire1fEv", "malloc"), 1),
    ("without a version", case("quire_a quire_b@@QUIRE_0", "malloc"), 1),
    ("ends the process", case("quire_a@@QUIRE_0 quire_b@@QUIRE_0", "abort@GLIBC_2.2.5 malloc"), 1),
    ("a static object", case("quire_a@@QUIRE_0 quire_b@@QUIRE_0", "__cxa_atexit@GLIBC_2.2.5"), 1),
    ("std::cout", case("quire_a@@QUIRE_0 quire_b@@QUIRE_0", "_ZSt4cout@GLIBCXX_3.4"), 1),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)

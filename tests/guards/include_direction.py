#!/usr/bin/env python3
"""Dependencies point one way: bindings -> capi -> core -> kernels/interface <- kernels/{cpu,cuda}, and inside
core from engine down to base (docs/architecture.md)."""
import re

import guard

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(quire/[^>]+)>)')

BASE = {"core/base"}
TENSOR = BASE | {"core/tensor", "kernels/interface"}
STEP = TENSOR | {"core/step"}
LAYERS = STEP | {"core/layers", "core/loader", "core/config"}
MODELS = LAYERS | {"core/models", "core/memory", "core/tokenizer"}
ENGINE = MODELS | {"core/chat", "core/kv", "core/sampling", "core/constrained", "core/response", "core/metrics"}

# What the files of a folder may include, beside files of the folder itself.
ALLOWED = {
    "kernels/interface": set(),
    "kernels/cpu": {"kernels/interface"},
    "kernels/cuda": {"kernels/interface"},
    "core/base": set(),
    "core/tensor": BASE | {"kernels/interface"},
    "core/step": TENSOR,
    "core/config": TENSOR,
    "core/loader": TENSOR | {"core/config"},
    "core/tokenizer": TENSOR | {"core/config"},
    "core/chat": BASE | {"core/tokenizer"},
    "core/metrics": BASE,
    "core/memory": BASE,
    "core/kv": STEP,
    "core/sampling": STEP,
    "core/constrained": BASE | {"core/tokenizer"},
    "core/response": BASE,
    "core/layers": LAYERS,
    "core/models": MODELS,
    "core/engine": ENGINE,
    "capi/include": set(),
    "capi/src": ENGINE | {"core/engine", "capi/include"},
    "capi/cli": {"capi/include"},
}

# The registration of backends is the only place that names them.
BACKEND_REGISTRATION = {"core/engine/model/backends.cpp"}
CONCRETE_BACKENDS = {"kernels/cpu", "kernels/cuda"}


def folder_of(path):
    """The folder that the rules speak of: two levels deep, and its own subfolders belong to it."""
    if path.startswith("quire/"):
        return "capi/include"
    return "/".join(path.split("/")[:2])


def breaches_of(tree, path):
    folder = folder_of(path)
    if folder not in ALLOWED:
        yield f"{path}: the folder {folder} has no rule in {__file__.rsplit('/', 1)[-1]}"
        return
    allowed = ALLOWED[folder] | {folder}
    if path in BACKEND_REGISTRATION:
        allowed = allowed | CONCRETE_BACKENDS
    for number, line in tree.lines(path):
        match = INCLUDE.match(line)
        if not match:
            continue
        included = match.group(1) or match.group(2)
        if "/" not in included:
            yield f'{path}:{number}: includes "{included}"; write it from the root of the repository'
        elif folder_of(included) not in allowed:
            yield f"{path}:{number}: {folder} must not include {included}"


def check(tree):
    sources = tree.select(".h", ".c", ".cpp", ".cu", ".cuh", under=("kernels/", "core/", "capi/"))
    if not sources:
        raise guard.GuardError("there are no sources")
    return [breach for path in sources for breach in breaches_of(tree, path)]


SELF_TESTS = [
    ("a downward include", {"core/engine/job.h": '#include "core/step/batch.h"\n'}, 0),
    ("an upward include", {"core/step/batch.h": '#include "core/engine/job.h"\n'}, 1),
    ("core sees the C API", {"core/base/error.cpp": "#include <quire/error.h>\n"}, 1),
    ("a kernel sees core", {"kernels/cpu/add.cpp": ' # include "core/base/error.h"\n'}, 1),
    ("engine names a backend", {"core/engine/job.cpp": '#include "kernels/cpu/backend.h"\n'}, 1),
    ("the registration names a backend", {"core/engine/model/backends.cpp": '#include "kernels/cpu/backend.h"\n'}, 0),
    ("an include without a folder", {"core/base/error.cpp": '#include "error.h"\n'}, 1),
    ("a folder without a rule", {"core/misc/all.h": ""}, 1),
    ("the command sees core", {"capi/cli/main.cpp": '#include "core/base/json.h"\n'}, 1),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)

#!/usr/bin/env python3
"""Dependencies point one way: bindings -> capi -> core -> kernels/interface <- kernels/{cpu,cuda}, and inside
core from engine down to base (docs/architecture.md). No folders include each other in a circle."""
import guard
from include_edges import circles, folder_edges, includes_of

BASE = {"core/base"}
TENSOR = BASE | {"core/tensor", "kernels/interface"}
STEP = TENSOR | {"core/step"}
LAYERS = STEP | {"core/layers", "core/loader", "core/config"}
MODELS = LAYERS | {"core/models", "core/memory", "core/tokenizer"}
STAGES = MODELS | {"core/net"}
ENGINE = STAGES | {"core/stages", "core/chat", "core/kv", "core/sampling", "core/constrained", "core/response", "core/metrics",
                   "core/drafting"}

# Folders whose files a folder may include, besides its own.
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
    "core/drafting": BASE,
    "core/kv": STEP,
    "core/sampling": STEP,
    "core/constrained": BASE | {"core/tokenizer"},
    "core/response": BASE,
    "core/layers": LAYERS,
    "core/models": MODELS,
    "core/net": BASE,
    "core/stages": STAGES,
    "capi/include": set(),
    "capi/hub": BASE,
    "capi/cli": {"capi/include", "capi/hub"},
}

# Folders of core/engine ("" is core/engine itself), and those of them that each may include. All of them may include
# the rest of core.
ENGINE_FOLDERS = {
    "turns": set(),
    "prefixes": set(),
    "events": set(),
    "residency": {"turns"},
    "settings": {"events", "prefixes", "residency"},
    "scheduler": {"settings"},
    "metrics": {"prefixes", "residency"},
    "jobs": {"events", "scheduler", "settings"},
    "loop": {"events", "jobs", "metrics", "prefixes", "residency", "scheduler", "settings", "turns"},
    "": {"events", "jobs", "loop", "metrics", "residency", "settings"},
    "model": {"", "events", "residency", "settings"},
    "requests": {"", "events", "jobs", "model", "residency", "settings"},
}


def engine_folder(name):
    return f"core/engine/{name}" if name else "core/engine"


ALLOWED.update({engine_folder(name): ENGINE | set(map(engine_folder, included))
                for name, included in ENGINE_FOLDERS.items()})
ALLOWED["capi/src"] = ENGINE | set(map(engine_folder, ENGINE_FOLDERS)) | {"capi/include"}

# Only the registration of backends names them.
BACKEND_REGISTRATION = {"core/engine/model/backends.cpp"}
CONCRETE_BACKENDS = {"kernels/cpu", "kernels/cuda"}


def folder_of(path):
    """Returns the folder that the rules apply to: two levels, three in core/engine, including subfolders."""
    if path.startswith("quire/"):
        return "capi/include"
    depth = 3 if path.startswith("core/engine/") else 2
    return "/".join(path.split("/")[:-1][:depth])


def breaches_of(tree, path):
    folder = folder_of(path)
    if folder not in ALLOWED:
        yield f"{path}: the folder {folder} has no rule in {__file__.rsplit('/', 1)[-1]}"
        return
    allowed = ALLOWED[folder] | {folder}
    if path in BACKEND_REGISTRATION:
        allowed = allowed | CONCRETE_BACKENDS
    for number, included in includes_of(tree, path):
        if "/" not in included:
            yield f'{path}:{number}: includes "{included}"; write it from the root of the repository'
        elif folder_of(included) not in allowed:
            yield f"{path}:{number}: {folder} must not include {included}"


def check(tree):
    sources = tree.select(".h", ".c", ".cpp", ".cu", ".cuh", under=("kernels/", "core/", "capi/"))
    if not sources:
        raise guard.GuardError("there are no sources")
    breaches = [breach for path in sources for breach in breaches_of(tree, path)]
    for circle in circles(folder_edges(tree, sources, folder_of)):
        breaches.append(f"{' and '.join(circle)} include each other in a circle")
    return breaches


SELF_TESTS = [
    ("a downward include", {"core/engine/job.h": '#include "core/step/batch.h"\n'}, 0),
    ("an upward include", {"core/step/batch.h": '#include "core/engine/job.h"\n'}, 1),
    ("core sees the C API", {"core/base/error.cpp": "#include <quire/error.h>\n"}, 1),
    ("a kernel sees core", {"kernels/cpu/add.cpp": ' # include "core/base/error.h"\n'}, 1),
    ("engine names a backend", {"core/engine/job.cpp": '#include "kernels/cpu/backend.h"\n'}, 1),
    ("the registration names a backend", {"core/engine/model/backends.cpp": '#include "kernels/cpu/backend.h"\n'}, 0),
    ("an include without a folder", {"core/base/error.cpp": '#include "error.h"\n'}, 1),
    ("a folder without a rule", {"core/misc/all.h": ""}, 1),
    ("a folder of the engine without a rule", {"core/engine/misc/all.h": ""}, 1),
    ("a downward include in the engine", {"core/engine/jobs/a.h": '#include "core/engine/settings/b.h"\n'}, 0),
    ("an upward include in the engine", {"core/engine/jobs/a.h": '#include "core/engine/loop/b.h"\n'}, 1),
    ("a part of the engine sees its root", {"core/engine/jobs/a.h": '#include "core/engine/engine.h"\n'}, 1),
    ("a circle of two: an upward include and the circle",
     {"core/engine/jobs/a.h": '#include "core/engine/loop/b.h"\n',
      "core/engine/loop/b.h": '#include "core/engine/jobs/a.h"\n'}, 2),
    ("a circle of three: an upward include and the circle",
     {"core/engine/events/a.h": '#include "core/engine/loop/b.h"\n',
      "core/engine/loop/b.h": '#include "core/engine/jobs/c.h"\n',
      "core/engine/jobs/c.h": '#include "core/engine/events/a.h"\n'}, 2),
    ("the C API sees a folder of the engine", {"capi/src/a.cpp": '#include "core/engine/requests/b.h"\n'}, 0),
    ("the client of hubs sees the interface", {"capi/hub/a.h": "#include <quire/error.h>\n"}, 1),
    ("the command sees core", {"capi/cli/main.cpp": '#include "core/base/json.h"\n'}, 1),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)

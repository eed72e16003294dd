#!/usr/bin/env python3
"""Runs each call of a Python client against quire-server on a real model.

usage: python_clients.py CLIENT SERVER MODEL_DIR [CALL...]

The module CLIENT_calls has the calls of a client in its list CALLS. A call is a function that takes the address of the
server and fails with an exception. Exits with status 77 and a message if the client is not installed: ./dev artifacts
brings it. Downloads nothing.
"""
import importlib
import importlib.metadata
import inspect
import os
import sys
import tempfile
import time
import traceback

import serving
from calls import KEYS

# Clients report on their use, or look for new versions, unless they are told not to.
QUIET = {"OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false", "LITELLM_LOCAL_MODEL_COST_MAP": "True",
         "LITELLM_TELEMETRY": "False", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1",
         "HF_HOME": os.path.join(tempfile.gettempdir(), "quire-huggingface")}


def passes(call, base):
    began = time.monotonic()
    try:
        call(base)
    except Exception:  # pylint: disable=broad-except
        traceback.print_exc()
        print(f"FAILED  {call.__name__}: {inspect.getdoc(call) or ''}", flush=True)
        return False
    print(f"passed  {call.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
    return True


def main():
    client, server, model, *names = sys.argv[1:]
    os.environ.update(QUIET)
    try:
        module = importlib.import_module(f"{client}_calls")
        importlib.metadata.version(module.PACKAGE)  # the command llm is not imported
    except ImportError as absent:
        print(f"skipped: {absent.name} is not installed; ./dev artifacts brings it")
        sys.exit(77)
    calls = [call for call in module.CALLS if not names or call.__name__ in names]
    with serving.served(server, model, keys=KEYS) as base:
        num_passed = sum(passes(call, base) for call in calls)
    print(f"{module.PACKAGE} {importlib.metadata.version(module.PACKAGE)}: {num_passed} of {len(calls)} calls passed")
    sys.exit(num_passed != len(calls))


main()

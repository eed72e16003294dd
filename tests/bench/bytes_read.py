#!/usr/bin/env python3
"""Memory that one decoding step on the CPU touches, measured with the referenced bits of the system's pages
(/proc/self/clear_refs), and the resident memory.

  bytes_read.py LIBQUIRE MODEL [STEPS]      MODEL: a directory or synthetic:NAME,..."""
import ctypes
import os
import re
import statistics
import sys

from libquire import Quire

PR_SET_THP_DISABLE = 41  # so that the bits are those of small pages


def referenced_bytes():
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        return int(re.search(r"Referenced:\s+(\d+) kB", file.read()).group(1)) * 1024


def forget_references():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("1")


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
quire = Quire(sys.argv[1])
runtime = quire.make("quire_runtime_create", None)
options = quire.make("quire_model_options_create")
quire.set_text("quire_model_options_set_path", options, sys.argv[2])
model = quire.load(runtime, options)
cache_options = quire.make("quire_cache_options_create")
quire.do("quire_cache_options_set_max_tokens", cache_options, ctypes.c_int64(1024))
cache = quire.make("quire_cache_create", model, cache_options)

quire.run_job(cache, [1], 1)
idle, touched = [], []
for step in range(int(sys.argv[3]) if len(sys.argv) > 3 else 20):
    forget_references()
    idle.append(referenced_bytes())
    forget_references()
    quire.run_job(cache, [2 + 97 * step], 1)  # a prompt of one token and one new token: one step
    touched.append(referenced_bytes())
print(f"resident {resident_bytes() / 2**20:.0f} MiB; touched by a step: median "
      f"{statistics.median(touched) / 2**20:.1f} MiB ({min(touched) / 2**20:.1f} to {max(touched) / 2**20:.1f}), "
      f"by none {statistics.median(idle) / 2**20:.1f} MiB")

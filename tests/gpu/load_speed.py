#!/usr/bin/env python3
"""Loads a model directory, creates a cache, and prints the load speed and whether memory use matched the plan.
  load_speed.py LIBQUIRE DIRECTORY DEVICES [SPLIT]"""
import ctypes
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
from libquire import Quire  # noqa: E402

quire = Quire(sys.argv[1])
directory, devices = pathlib.Path(sys.argv[2]), sys.argv[3]
runtime = quire.make("quire_runtime_create", None)
options = quire.make("quire_model_options_create")
quire.set_text("quire_model_options_set_path", options, str(directory))
quire.set_text("quire_model_options_set_device", options, devices)
if len(sys.argv) > 4:
    quire.set_text("quire_model_options_set_split", options, sys.argv[4])
cache_options = quire.make("quire_cache_options_create")
quire.do("quire_cache_options_set_max_tokens", cache_options, ctypes.c_int64(16384))

size = sum(file.stat().st_size for file in directory.glob("*.safetensors"))
started = time.monotonic()
plan = quire.make("quire_plan_create", runtime, options, cache_options)
planned = time.monotonic() - started


def of_device(what, index):
    return quire.number(f"quire_plan_device_{what}_bytes", plan, index)


def free_bytes():
    return [quire.number("quire_runtime_device_free_bytes", runtime, i)
            for i in range(quire.do("quire_runtime_num_devices", runtime))]


# Returns the memory used since, as the driver reports it: (cpu, cards).
def taken_since(before):
    return [then - now for then, now in zip(before, free_bytes())]


names = [quire.text("quire_plan_device_name", plan, i) for i in range(quire.do("quire_plan_num_devices", plan))]
totals = [of_device("total", i) for i in range(len(names))]
weights = [sum(of_device(kind, i) for kind in ("embedding", "layer", "head")) for i in range(len(names))]
opened = free_bytes()
for attempt in range(3):
    started = time.monotonic()
    model = quire.load(runtime, options)
    seconds = time.monotonic() - started
    print(f"load {attempt}: {size / 1e9:.2f} GB in {seconds:.2f} s, {size / seconds / 1e9:.2f} GB/s")
    if attempt < 2:
        quire.do("quire_model_free", model)
        print(f"left over from the load: {taken_since(opened)}")
loaded = free_bytes()
cache = quire.make("quire_cache_create", model, cache_options)
print(f"plan in {planned:.2f} s: {list(zip(names, totals))}; weights {weights}")
print(f"taken (cpu, cards): {taken_since(opened)}, by the cache {taken_since(loaded)}")
taken = sum(taken_since(opened)[1:])
planned_bytes = sum(total for name, total in zip(names, totals) if name != "cpu")
off = (taken - planned_bytes) / max(planned_bytes, 1)
print(f"by the driver {off:+.2%} of what was planned for the cards")
working = free_bytes()
quire.run_job(cache, list(range(600)), 16)
print(f"taken by a first job of 600 tokens and 16 more: {taken_since(working)}")
if abs(off) > 0.02:
    sys.exit("the plan is off by more than 2 %")

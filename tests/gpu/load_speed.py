#!/usr/bin/env python3
"""Loads a model directory, makes a cache, and says how fast the files went to the devices and whether the plan held.
  load_speed.py LIBQUIRE DIRECTORY DEVICES [SPLIT]"""
import ctypes
import json
import pathlib
import sys
import time

library = ctypes.CDLL(sys.argv[1])


def call(name, *arguments, result=ctypes.c_void_p):
    function = getattr(library, name)
    function.restype = result
    error = ctypes.c_void_p()
    value = function(*arguments, ctypes.byref(error))
    if error:
        library.quire_error_message.restype = ctypes.c_char_p
        sys.exit(f"{name}: {library.quire_error_message(error, None).decode()}")
    return ctypes.c_void_p(value) if result is ctypes.c_void_p else value


def set_text(name, options, text):
    call(name, options, text.encode(), ctypes.c_size_t(len(text.encode())), result=ctypes.c_int32)


directory, devices = pathlib.Path(sys.argv[2]), sys.argv[3]
runtime = call("quire_runtime_create", None)
options = call("quire_model_options_create")
set_text("quire_model_options_set_path", options, str(directory))
set_text("quire_model_options_set_device", options, devices)
if len(sys.argv) > 4:
    set_text("quire_model_options_set_split", options, sys.argv[4])
cache_options = call("quire_cache_options_create")
call("quire_cache_options_set_max_tokens", cache_options, ctypes.c_int64(16384), result=ctypes.c_int32)

size = sum(file.stat().st_size for file in directory.glob("*.safetensors"))
text = ctypes.create_string_buffer(1 << 20)
started = time.monotonic()
length = call("quire_plan", runtime, options, cache_options, text, ctypes.c_size_t(len(text)), result=ctypes.c_int64)
planned = time.monotonic() - started
plan = json.loads(text.raw[:length])


def free_bytes():
    return [call("quire_runtime_device_free_bytes", runtime, i, result=ctypes.c_int64)
            for i in range(call("quire_runtime_num_devices", runtime, result=ctypes.c_int32))]


# By the driver: (cpu, cards).
def taken_since(before):
    return [then - now for then, now in zip(before, free_bytes())]


opened = free_bytes()
for attempt in range(3):
    started = time.monotonic()
    model = call("quire_model_load", runtime, options)
    seconds = time.monotonic() - started
    print(f"load {attempt}: {size / 1e9:.2f} GB in {seconds:.2f} s, {size / seconds / 1e9:.2f} GB/s")
    if attempt < 2:
        call("quire_model_free", model, result=ctypes.c_int32)
        print(f"left behind by the load: {taken_since(opened)}")
loaded = free_bytes()
cache = call("quire_cache_create", model, cache_options)
print(f"plan in {planned:.2f} s: {[(d['name'], d['num_layers'], d['total_bytes']) for d in plan['devices']]}; "
      f"weights {[sum(d[kind + '_bytes'] for kind in ('embedding', 'layer', 'head')) for d in plan['devices']]}")
print(f"taken (cpu, cards): {taken_since(opened)}, by the cache {taken_since(loaded)}")
taken, planned_bytes = sum(taken_since(opened)[1:]), sum(d["total_bytes"] for d in plan["devices"] if d["name"] != "cpu")
off = (taken - planned_bytes) / max(planned_bytes, 1)
print(f"by the driver {off:+.2%} of what was planned for the cards")
request = call("quire_job_request_create")
prompt = (ctypes.c_int32 * 600)(*range(600))
call("quire_job_request_set_prompt_tokens", request, prompt, ctypes.c_size_t(len(prompt)), result=ctypes.c_int32)
call("quire_job_request_set_max_new_tokens", request, ctypes.c_int32(16), result=ctypes.c_int32)
working = free_bytes()
job = call("quire_job_submit", cache, request)
call("quire_job_wait", job, ctypes.c_int64(60_000_000_000), result=ctypes.c_int32)
print(f"taken by a first job of 600 tokens and 16 more: {taken_since(working)}")
if abs(off) > 0.02:
    sys.exit("the plan is off by more than 2 %")

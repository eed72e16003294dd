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
free_bytes = [call("quire_runtime_device_free_bytes", runtime, i, result=ctypes.c_int64)
              for i in range(call("quire_runtime_num_devices", runtime, result=ctypes.c_int32))]
for attempt in range(3):
    started = time.monotonic()
    model = call("quire_model_load", runtime, options)
    seconds = time.monotonic() - started
    print(f"load {attempt}: {size / 1e9:.2f} GB in {seconds:.2f} s, {size / seconds / 1e9:.2f} GB/s")
    if attempt < 2:
        call("quire_model_free", model, result=ctypes.c_int32)
cache = call("quire_cache_create", model, cache_options)
taken = [before - call("quire_runtime_device_free_bytes", runtime, i, result=ctypes.c_int64)
         for i, before in enumerate(free_bytes)]
print(f"plan in {planned:.2f} s: {[(d['name'], d['num_layers'], d['total_bytes']) for d in plan['devices']]}, "
      f"taken (cpu, cards): {taken}")

"""Calls libquire through ctypes, for measurements that need no build. An error ends the program with its
message."""
import ctypes
import sys


class Quire:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.quire_error_message.restype = ctypes.c_char_p

    def _call(self, result, name, arguments):
        function = getattr(self.library, name)
        function.restype = result
        error = ctypes.c_void_p()
        value = function(*arguments, ctypes.byref(error))
        if error:
            sys.exit(f"{name}: {self.library.quire_error_message(error, None).decode()}")
        return value

    def make(self, name, *arguments):
        """Returns a handle."""
        return ctypes.c_void_p(self._call(ctypes.c_void_p, name, arguments))

    def number(self, name, *arguments):
        return self._call(ctypes.c_int64, name, arguments)

    def do(self, name, *arguments):
        """Calls a function that returns 1 or another 32-bit number."""
        return self._call(ctypes.c_int32, name, arguments)

    def set_text(self, name, handle, text):
        self.do(name, handle, text.encode(), ctypes.c_size_t(len(text.encode())))

    def text(self, name, *arguments):
        room = ctypes.create_string_buffer(4096)
        length = self.number(name, *arguments, room, ctypes.c_size_t(len(room)))
        return room.raw[:length].decode()

    def load(self, runtime, options):
        return self.make("quire_model_load", runtime, options, ctypes.c_int64(-1), None)

    def run_job(self, cache, prompt, new_tokens):
        """Runs a job with these tokens to its end."""
        request = self.make("quire_job_request_create")
        tokens = (ctypes.c_int32 * len(prompt))(*prompt)
        self.do("quire_job_request_set_prompt_tokens", request, tokens, ctypes.c_size_t(len(prompt)))
        self.do("quire_job_request_set_add_special", request, 0)
        self.do("quire_job_request_set_max_new_tokens", request, new_tokens)
        job = self.make("quire_job_submit", cache, request)
        self.do("quire_job_wait", job, ctypes.c_int64(60_000_000_000), None)
        self.do("quire_job_free", job)
        self.do("quire_job_request_free", request)

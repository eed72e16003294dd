"""A small hub on the loopback address that speaks Hugging Face's protocol and fails on demand."""
import functools
import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse

LARGE = (".safetensors", ".gguf")


@functools.lru_cache(maxsize=None)  # of large contents, many times
def sha256(data):
    return hashlib.sha256(data).hexdigest()


@functools.lru_cache(maxsize=None)
def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def digest(path, data):
    """Returns the name of a content in the cache: SHA-256 of large files, that of git for others."""
    return sha256(data) if path.endswith(LARGE) else git_sha1(data)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub = self.server.hub
        with hub.lock:
            hub.requests.append((urllib.parse.unquote(self.path), dict(self.headers.items())))
        try:
            if hub.fails(self):
                return
            hub.answer(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def send(self, status, body=b"", headers=(), length=None):
        """Sends an answer; `length` is what it announces, if that differs from the truth."""
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
            self.server.hub.count(len(body))
        if length is not None and length != len(body):
            self.close_connection = True

    def wanted_range(self, size):
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not match:
            return None
        return int(match.group(1)), min(int(match.group(2) or size - 1), size - 1)


class Hub:
    """Serves `repositories`: names to contents, which are files by path. Each content is the branch main."""

    def __init__(self, repositories, host="127.0.0.1"):
        self.repositories = repositories
        self.lock = threading.Lock()
        self.requests = []
        self.faults = []
        self.bytes_sent = 0
        self.listing = None  # replaces the list of files
        self.released = threading.Event()  # ends answers that stall
        self.server = http.server.ThreadingHTTPServer((host, 0), Handler)
        self.server.daemon_threads = True
        self.server.hub = self
        self.endpoint = f"http://{host}:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def count(self, num_bytes):
        with self.lock:
            self.bytes_sent += num_bytes

    def commit(self, repository):
        files = sorted((path, digest(path, data)) for path, data in self.repositories[repository].items())
        return hashlib.sha1(repr(files).encode()).hexdigest()

    def fail(self, fault, words="", times=1):
        """Calls fault(handler) for the next requests whose address has the words; it returns whether it answered."""
        self.faults.append([fault, words, times])

    def fails(self, handler):
        """Calls the faults in order until one has answered."""
        path = urllib.parse.unquote(handler.path)
        for entry in list(self.faults):
            with self.lock:
                is_due = entry[1] in path and entry[2] > 0
                entry[2] -= is_due
            if is_due and entry[0](handler):
                return True
        return False

    def asked_for(self, words):
        return [(path, headers) for path, headers in self.requests if words in path]

    def list_files(self, repository):
        files = []
        for path, data in self.repositories[repository].items():
            entry = {"rfilename": path, "size": len(data), "blobId": git_sha1(data)}
            if path.endswith(LARGE):
                entry["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 134}
            files.append(entry)
        return {"id": repository, "sha": self.commit(repository), "siblings": files}

    def answer(self, handler):
        path = urllib.parse.unquote(urllib.parse.urlsplit(handler.path).path)
        if match := re.fullmatch(r"/api/models/(.+?)/revision/(.+)", path):
            self.answer_list(handler, match.group(1), match.group(2))
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.answer_file(handler, *match.groups())
        else:
            handler.send(404)

    def answer_list(self, handler, repository, revision):
        if repository not in self.repositories:
            handler.send(401, headers=[("X-Error-Message", "Repository not found")])
        elif revision not in ("main", "v1", self.commit(repository)):
            handler.send(404, headers=[("X-Error-Message", f"Invalid rev id: {revision}")])
        else:
            body = self.listing if self.listing is not None else json.dumps(self.list_files(repository)).encode()
            handler.send(200, body, [("Content-Type", "application/json")])

    def answer_file(self, handler, repository, revision, path):
        data = self.repositories.get(repository, {}).get(path)
        if data is None or revision not in ("main", "v1", self.commit(repository)):
            handler.send(404)
            return
        headers = [("X-Repo-Commit", self.commit(repository)), ("ETag", f'"{digest(path, data)}"'),
                   ("X-Linked-Size", str(len(data))), ("X-Linked-Etag", f'"{digest(path, data)}"')]
        self.send_data(handler, data, headers)

    @staticmethod
    def send_data(handler, data, headers=()):
        wanted = handler.wanted_range(len(data))
        if wanted is None:
            handler.send(200, data, headers)
            return
        first, last = wanted
        handler.send(206, data[first:last + 1], [*headers, ("Content-Range", f"bytes {first}-{last}/{len(data)}")])

    # Faults: each returns a function for fail().

    @staticmethod
    def status(code, **headers):
        def fault(handler):
            handler.send(code, b"<html>no</html>", [(name.replace("_", "-"), value) for name, value in headers.items()])
            return True
        return fault

    def data_of(self, handler):
        path = urllib.parse.unquote(urllib.parse.urlsplit(handler.path).path)
        repository, file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path).groups()
        return self.repositories[repository][file]

    def cut(self, num_bytes):
        """The connection ends after so many bytes of what was announced."""
        def fault(handler):
            data = self.data_of(handler)
            first, last = handler.wanted_range(len(data)) or (0, len(data) - 1)
            part = data[first:last + 1]
            is_part = handler.headers.get("Range")
            handler.send(206 if is_part else 200, part[:num_bytes],
                         [("Content-Range", f"bytes {first}-{last}/{len(data)}")] if is_part else [], length=len(part))
            return True
        return fault

    def changed(self, change):
        """The answer is complete, but its content is change(data)."""
        def fault(handler):
            self.send_data(handler, change(self.data_of(handler)))
            return True
        return fault

    def without_ranges(self, num_bytes=None):
        """The whole file comes, whatever was requested; it is cut after num_bytes."""
        def fault(handler):
            data = self.data_of(handler)
            handler.send(200, data if num_bytes is None else data[:num_bytes], length=len(data))
            return True
        return fault

    def other_range(self, shift):
        """The range is another one than was requested."""
        def fault(handler):
            data = self.data_of(handler)
            first, last = handler.wanted_range(len(data)) or (0, len(data) - 1)
            handler.send(206, data[first + shift:last + 1 + shift],
                         [("Content-Range", f"bytes {first + shift}-{last + shift}/{len(data)}")])
            return True
        return fault

    def stall(self, num_bytes):
        """Sends a part, and nothing more."""
        def fault(handler):
            data = self.data_of(handler)
            first, last = handler.wanted_range(len(data)) or (0, len(data) - 1)
            part = data[first:last + 1]
            is_part = handler.headers.get("Range")
            handler.send_response(206 if is_part else 200)
            if is_part:
                handler.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            handler.send_header("Content-Length", str(len(part)))
            handler.end_headers()
            handler.wfile.write(part[:num_bytes])
            handler.wfile.flush()
            self.count(len(part[:num_bytes]))
            self.released.wait(60)
            handler.close_connection = True
            return True
        return fault

    @staticmethod
    def slow(seconds):
        def fault(_handler):
            time.sleep(seconds)
            return False
        return fault

    @staticmethod
    def redirect(target, status=302):
        """Redirects to target + path."""
        def fault(handler):
            handler.send(status, headers=[("Location", target + handler.path)])
            return True
        return fault

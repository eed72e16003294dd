"""Quire with Ray Serve. Each replica runs a quire-server of its own on a loopback port and forwards requests, with
streamed answers. A server that has ended is restarted, and requests without any answer yet are sent to it again.

    serve run quire_serve:app config=/etc/quire/server.json replicas=3

The configuration file is that of quire-server (docs/server.md); its `listen` is ignored. Needs ray[serve].
"""
import asyncio
import json
import logging

import aiohttp
from ray import serve
from starlette.requests import Request
from starlette.responses import StreamingResponse

LOG = logging.getLogger("ray.serve")
ATTEMPTS = 5
HOP_BY_HOP = {"connection", "host", "content-length", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}


def passed_on(headers):
    return {name: value for name, value in headers.items() if name.lower() not in HOP_BY_HOP}


class Process:
    """One quire-server, started on first use, and again after it has ended."""

    def __init__(self, command, config):
        self.command, self.config = command, config
        self.process, self.address, self.lock = None, None, asyncio.Lock()

    async def url(self):
        async with self.lock:
            if self.process is None or self.process.returncode is not None:
                await self.start()
            return self.address

    async def start(self):
        self.process = await asyncio.create_subprocess_exec(
            self.command, "--config", self.config, "--listen", "127.0.0.1:0", stderr=asyncio.subprocess.PIPE)
        async for line in self.process.stderr:
            entry = json.loads(line)
            LOG.info("quire-server: %s", entry.get("message"))
            if entry.get("message") == "listening":
                self.address = "http://" + entry["address"]
                self.drain = asyncio.create_task(self.read_log())
                return
        raise RuntimeError("quire-server did not start; its log above has the reason")

    async def read_log(self):
        async for _ in self.process.stderr:
            pass

    def terminate(self):
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()


@serve.deployment(max_ongoing_requests=1024, health_check_period_s=5, graceful_shutdown_timeout_s=60)
class QuireServer:
    def __init__(self, config, command="quire-server"):
        self.server, self.session = Process(command, config), None

    async def http(self):
        if self.session is None:
            self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None),
                                                 connector=aiohttp.TCPConnector(limit=0))
        return self.session

    async def check_health(self):
        """Fails if a step hangs for a minute; Serve then replaces the replica."""
        async with (await self.http()).get(await self.server.url() + "/health/live") as answer:
            answer.raise_for_status()

    async def __call__(self, request: Request):
        answer = await self.send(request, await request.body())
        return StreamingResponse(self.pieces(answer), status_code=answer.status, headers=passed_on(answer.headers))

    async def send(self, request, body):
        """Returns the head of the answer. Until it has arrived, the request may be sent again."""
        for attempt in range(ATTEMPTS):
            try:
                return await (await self.http()).request(
                    request.method, await self.server.url() + request.url.path, params=request.query_params, data=body,
                    headers=passed_on(request.headers))
            except aiohttp.ClientConnectionError:
                if attempt + 1 == ATTEMPTS:
                    raise
                await asyncio.sleep(0.2)  # until the end of the process is noticed
        return None

    async def pieces(self, answer):
        """Yields the body. If the client disconnects, the generator is closed, and the server cancels its job."""
        try:
            async for piece in answer.content.iter_any():
                yield piece
        finally:
            answer.close()

    def __del__(self):
        self.server.terminate()


def app(arguments):
    return QuireServer.options(num_replicas=int(arguments.get("replicas", 1))).bind(
        arguments["config"], arguments.get("command", "quire-server"))

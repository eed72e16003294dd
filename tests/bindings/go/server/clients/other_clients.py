#!/usr/bin/env python3
"""Drives quire-server with OpenAI's official clients of Go and Node, Anthropic's of Node, Vercel's AI SDK and langchain4j.

usage: other_clients.py go GO MODEL_DIR | other_clients.py (node | node_anthropic | node_ai_sdk | langchain4j) SERVER MODEL_DIR.
Exits with status 77 and a message if the client is absent. It is looked up in the module cache for Go, in NODE_PATH for Node, and in the
folder langchain4j of QUIRE_ARTIFACTS (default: build/artifacts). ./dev artifacts downloads them; this script
downloads nothing.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import serving

HERE = pathlib.Path(__file__).resolve().parent
ARTIFACTS = pathlib.Path(os.environ.get("QUIRE_ARTIFACTS", HERE.parents[4] / "build/artifacts"))


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def go_client(go, model):
    """Runs a program that has the server in its own process, without a socket."""
    environment = {**os.environ, "GOPROXY": "off", "GOFLAGS": "-mod=readonly"}
    known = subprocess.run([go, "list", "-deps", "."], cwd=HERE / "openai_go", env=environment, capture_output=True, text=True)
    if known.returncode != 0:
        skip(known.stderr.strip().splitlines()[-1])
    with tempfile.TemporaryDirectory() as directory, serving.template() as template:
        program = os.path.join(directory, "client")
        subprocess.run([go, "build", "-o", program, "."], cwd=HERE / "openai_go", env=environment, check=True)
        subprocess.run([program, model, template], check=True)


def node_client(program, *modules):
    """Returns a function that runs a program of Node, which needs modules."""
    def run(server, model):
        node = shutil.which("node")
        for module in modules:
            if node is None or subprocess.run([node, "-e", f"require('{module}')"], capture_output=True).returncode != 0:
                skip(f"node has no module {module}")
        with serving.served(server, model) as base:
            subprocess.run([node, HERE / program, base], check=True)
    return run


def langchain4j_client(server, model):
    java, jars = shutil.which("java"), ARTIFACTS / "langchain4j"
    if java is None or not list(jars.glob("langchain4j-open-ai-*.jar")):
        skip(f"{jars} has no langchain4j-open-ai; ./dev artifacts brings it")
    with serving.served(server, model) as base:
        subprocess.run([java, "-cp", f"{jars}/*", HERE / "Langchain4jClient.java", base], check=True)


CLIENTS = {
    "langchain4j": langchain4j_client,
    "go": go_client,
    "node": node_client("openai_node.cjs", "openai"),
    "node_anthropic": node_client("anthropic_node.cjs", "@anthropic-ai/sdk"),
    "node_ai_sdk": node_client("ai_sdk_node.cjs", "ai", "@ai-sdk/openai", "@ai-sdk/openai-compatible", "@ai-sdk/anthropic"),
}
CLIENTS[sys.argv[1]](*sys.argv[2:])

#!/usr/bin/env python3
"""Checks what llama.cpp's server tests assert of text models (tools/server/tests/unit, November 2026), in our words.

usage: llama_assertions.py SERVER MODEL_DIR. An assertion is one test of theirs, or one case if cases differ. Left out are
tests of images, audio, adapters, drafts, slots in files, infill models, their router and their command line."""
import hashlib
import sys

import llama_chats  # its assertions register themselves, like those of the next three
import llama_completions
import llama_inputs
import llama_messages
import llama_requests
import peers

MISSES = {
    "the_list_of_models_needs_no_key": "names of models may be confidential, so they need the key of a client",
    "probabilities_after_sampling": "post_sampling_probs is refused: the library returns log-probabilities of the model",
    "progress_of_the_prompt": "return_progress is refused",
    "progress_of_the_prompt_of_a_response": "return_progress is refused",
    "the_error_type_of_a_long_prompt": "the type is OpenAI's, invalid_request_error, with the code context_length_exceeded",
    "the_beginning_of_an_answer_is_continued": "a last message of the assistant is continued with continue_final_message, as in vLLM",
    "the_context_is_shifted": "a prompt or an answer that does not fit is refused or ended, never cut without notice",
}


def main():
    server, model = sys.argv[1:]
    digest = hashlib.sha256(llama_requests.KEY.encode()).hexdigest()
    with peers.started(server, model, {"context_tokens": 512}, aliases={"king": "m"}) as base, \
            peers.started(server, model, keys=[{"sha256": digest, "owner": "a", "models": ["m"]}], origins=["https://web.example.com"]) as keyed:
        peers.check(llama_requests.ASSERTIONS, MISSES, peers.Peer(base), peers.Peer(keyed, llama_requests.KEY))


main()

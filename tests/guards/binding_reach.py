#!/usr/bin/env python3
"""Reach: every function of the C interface is called by the hand-written layer of each language, and every
constant has a name there, so that nothing is added which a Go, Java or C# program cannot get at."""
import re

import guard

HEADERS = "capi/include/quire/"
DECLARATION = re.compile(r"QUIRE_API\b[^;(]*?\b(quire_\w+)\s*\(")
CONSTANT = re.compile(r"^#define (QUIRE_(?!API\b|\w+_H\b)\w+) ", re.MULTILINE)
SETTINGS = (HEADERS + "options.h", HEADERS + "request.h")
# The files of a layer, how they end, and of which headers the constants need a name of the layer: SWIG makes those
# of Java public, which does for results; settings take an enum. What a typemap calls, a layer reaches.
LANGUAGES = {
    "Go": (("bindings/go/", "bindings/typemaps/go.i"), (".go", ".i"), (HEADERS,)),
    "Java": (("bindings/java/dev/quire/", "bindings/typemaps/java.i"), (".java", ".i"), SETTINGS),
    "C#": (("bindings/csharp/", "bindings/typemaps/csharp.i"), (".cs", ".i"), (HEADERS,)),
}
GENERATED = "bindings/go/internal/"
FOR_A_SINK = "of use with a log sink alone"
OF_CONSTRAINTS = "for programs that draw tokens themselves; the layers constrain requests"
OF_THE_HEADER = "of the header; quire_version_string tells of the library"
TAKEN_IN_BATCHES = "these languages take events with the drains"
ANSWER_OF_A_WAIT = "an error, a timeout or a cancelled wait shows itself otherwise there"
TO_COME = "comes with the next change of the layers"
BINDINGS_FOLLOW = "bindings follow"
# Why a layer may do without it.
EXEMPT = {
    "QUIRE_ERROR_OK": "nothing failed",
    "QUIRE_LOG_DEBUG": FOR_A_SINK,
    "QUIRE_LOG_ERROR": FOR_A_SINK,
    "QUIRE_LOG_INFO": FOR_A_SINK,
    "QUIRE_LOG_OFF": FOR_A_SINK,
    "QUIRE_LOG_WARNING": FOR_A_SINK,
    "QUIRE_VERSION_MAJOR": OF_THE_HEADER,
    "QUIRE_VERSION_MINOR": OF_THE_HEADER,
    "QUIRE_VERSION_PATCH": OF_THE_HEADER,
    "QUIRE_VERSION_STRING": OF_THE_HEADER,
    "QUIRE_WAIT_CANCELLED": ANSWER_OF_A_WAIT,
    "QUIRE_WAIT_FAILED": ANSWER_OF_A_WAIT,
    "QUIRE_WAIT_TIMEOUT": ANSWER_OF_A_WAIT,
    "quire_constraint_create": OF_CONSTRAINTS,
    "quire_constraint_free": OF_CONSTRAINTS,
    "quire_matcher_accept": OF_CONSTRAINTS,
    "quire_matcher_create": OF_CONSTRAINTS,
    "quire_matcher_forced_text": OF_CONSTRAINTS,
    "quire_matcher_free": OF_CONSTRAINTS,
    "quire_matcher_mask": OF_CONSTRAINTS,
    "quire_matcher_may_end": OF_CONSTRAINTS,
    "quire_matcher_rollback": OF_CONSTRAINTS,
    "QUIRE_CONSTRAINT_CHOICE": OF_CONSTRAINTS,
    "QUIRE_CONSTRAINT_GBNF": OF_CONSTRAINTS,
    "QUIRE_CONSTRAINT_JSON_OBJECT": OF_CONSTRAINTS,
    "QUIRE_CONSTRAINT_JSON_SCHEMA": OF_CONSTRAINTS,
    "QUIRE_CONSTRAINT_LARK": OF_CONSTRAINTS,
    "QUIRE_CONSTRAINT_REGEX": OF_CONSTRAINTS,
    "quire_cancel_is_triggered": "a context or token of the language tells",
    "quire_chat_template_choose": BINDINGS_FOLLOW,
    "quire_chat_template_create": BINDINGS_FOLLOW,
    "quire_chat_template_free": BINDINGS_FOLLOW,
    "quire_chat_template_hash": BINDINGS_FOLLOW,
    "quire_chat_template_open": BINDINGS_FOLLOW,
    "quire_chat_template_render": BINDINGS_FOLLOW,
    "quire_chat_template_segments": BINDINGS_FOLLOW,
    "quire_chat_template_set_now": BINDINGS_FOLLOW,
    "quire_chat_template_set_token": BINDINGS_FOLLOW,
    "quire_chat_template_tokens": BINDINGS_FOLLOW,
    "quire_job_request_clear_stop_texts": "a request is filled anew for each use",
    "quire_job_poll": TAKEN_IN_BATCHES,
    "quire_queue_poll": TAKEN_IN_BATCHES,
    "quire_queue_fd": "for event loops; these languages wait in threads",
    "quire_runtime_options_set_log_level": FOR_A_SINK,
    "quire_runtime_options_set_log_sink": "called on threads that block all signals, with which runtimes stop threads",
}

EXEMPT.update(dict.fromkeys("""quire_cache_set_quota
quire_cache_set_namespace_quota
quire_cache_set_namespace_weight
quire_error_is_retryable
quire_error_retry_after_ns
quire_event_index
quire_event_first_token
quire_event_kept_tokens
quire_event_kept_bytes
quire_event_log_level
quire_event_lost_lines
quire_event_stop_token
quire_event_stop_text
quire_event_prompt_tokens
quire_event_cached_tokens
quire_event_new_tokens
quire_event_draft_tokens
quire_event_accepted_draft_tokens
quire_event_preemptions
quire_event_time_queued_ns
quire_event_time_prompt_ns
quire_event_time_generate_ns
QUIRE_EVENT_REWIND
QUIRE_EVENT_LOG
quire_job_seed
quire_job_draft_tokens
quire_job_accepted_draft_tokens
quire_model_options_set_num_shards
quire_cache_options_set_name
quire_queue_set_log_level
quire_job_request_clear_prompt
quire_job_request_add_prompt_text
quire_job_request_add_prompt_tokens
quire_job_request_add_prompt_special
quire_job_request_set_random_seed
quire_job_request_set_logit_biases
quire_job_request_clear_logit_biases
quire_job_request_set_user_data_step
quire_runtime_set_memory_budget
quire_runtime_metrics
quire_job_request_set_smoothing_factor
quire_job_request_set_min_temperature
quire_job_request_set_max_temperature
quire_job_request_set_temperature_exponent
quire_job_request_set_top_n_sigma
quire_job_request_set_top_a
quire_job_request_set_tail_free
quire_job_request_set_typical
quire_job_request_set_mirostat_tau
quire_job_request_set_mirostat_eta
quire_job_request_set_xtc_probability
quire_job_request_set_xtc_threshold
quire_job_request_set_xtc_ignored
quire_job_request_set_skew
quire_job_request_set_sampler_order
quire_job_request_set_dry_multiplier
quire_job_request_set_dry_base
quire_job_request_set_dry_allowed_length
quire_job_request_set_dry_max_length
quire_job_request_set_dry_range
quire_job_request_set_dry_breakers
quire_job_request_set_loop_guard
quire_job_request_set_sampling_preset
quire_job_request_set_sampling_of_model
quire_job_request_set_constraint
QUIRE_FINISH_LOOP
quire_job_request_add_messages
quire_job_request_set_tools
quire_job_request_set_template_arguments
quire_job_request_set_chat_template
quire_model_render_chat
quire_cache_options_set_device_weight
quire_cache_options_set_step_stretch
quire_cache_set_device_weight
quire_model_render_chat_tokens""".split(), TO_COME))


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def declared(tree):
    """(path, name, whether it is a constant) of what the headers declare."""
    for path in tree.select(".h", under=(HEADERS,)):
        if path.endswith("experimental.h"):
            continue  # for benchmarks alone
        text = without_comments(tree.read(path))
        yield from ((path, name, False) for name in DECLARATION.findall(text))
        yield from ((path, name, True) for name in CONSTANT.findall(tree.read(path)))


def names_in_layer(tree, files, suffixes):
    """The C names in the code of a layer. SWIG spells functions of Go with a capital."""
    paths = [p for p in tree.select(*suffixes, under=files) if not p.startswith(GENERATED)]
    if not paths:
        raise guard.GuardError(f"{files[0]} has no sources")
    text = "\n".join(without_comments(tree.read(path)) for path in paths)
    return {name.replace("Quire_", "quire_") for name in re.findall(r"\b(?:[Qq]uire_|QUIRE_)\w+", text)}


def check(tree):
    interface = list(declared(tree))
    if not interface:
        raise guard.GuardError(f"{HEADERS} declares nothing")
    breaches = []
    reached = {language: names_in_layer(tree, files, suffixes)
               for language, (files, suffixes, _) in LANGUAGES.items()}
    for path, name, is_constant in interface:
        lacking = [language for language, (_, _, named) in LANGUAGES.items()
                   if name not in reached[language] and (not is_constant or path.startswith(named))]
        if lacking and name not in EXEMPT:
            breaches.append(f"{path}: {name} is not reached from the layer of {', '.join(lacking)} in bindings/")
        if not lacking and name in EXEMPT:
            breaches.append(f"{path}: {name} is reached from every layer: nothing to exempt")
    return breaches


def layers(go="", java="", csharp=""):
    """A tree with one header and three layers."""
    return {HEADERS + "a.h": "#define QUIRE_A_ONE 1 /* one */\n#define QUIRE_A_H\n#define QUIRE_API x\n"
                             "QUIRE_API int32_t\nquire_a_tell(quire_a* a);\n/* QUIRE_API int quire_old(); */\n"
                             "QUIRE_API int quire_queue_fd(quire_queue* queue);\n",
            "bindings/go/a.go": go, "bindings/java/dev/quire/A.java": java, "bindings/csharp/A.cs": csharp}


GO = "native.Quire_a_tell(native.QUIRE_A_ONE)"
JAVA = "QuireNative.quire_a_tell(a)"
CSHARP = "One = QuireNative.QUIRE_A_ONE, QuireNative.quire_a_tell(a)"
SELF_TESTS = [
    ("reached", layers(GO, JAVA, CSHARP), 0),
    ("not in Java", layers(GO, "", CSHARP), 1),
    ("in a comment alone", layers("// " + GO, JAVA, CSHARP), 2),
    ("a longer name", layers(GO, JAVA.replace("tell", "tell_more"), CSHARP), 1),
    ("a constant that has no name", layers("native.Quire_a_tell(1)", JAVA, CSHARP), 1),
    ("in generated code alone", dict(layers("", JAVA, CSHARP), **{GENERATED + "native/a.go": GO}), 2),
    ("through a typemap", dict(layers(GO, "", CSHARP), **{"bindings/typemaps/java.i": "quire_a_tell(a);"}), 0),
    ("a constant of a setting that has no name", dict(layers(GO, JAVA, CSHARP), **{SETTINGS[0]:
        "#define QUIRE_A_ONE 1\n"}), 1),
    ("exempt and reached by all", layers(*(code + " quire_queue_fd" for code in (GO, JAVA, CSHARP))), 1),
]

if __name__ == "__main__":
    guard.main(check, SELF_TESTS)

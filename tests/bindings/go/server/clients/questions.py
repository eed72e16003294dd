#!/usr/bin/env python3
"""Asks a chat model 12 questions, each with four tools and with a schema of three members, and counts the answers that
are complete and valid. A model may write as many calls as it likes, unless only one is allowed.

usage: questions.py SERVER MODEL_DIR [MAX_TOKENS]. Needs jsonschema (./dev artifacts). The result of SmolLM2 is in
docs/testing-log.md; the exit status is 1 if an answer with
one call or of the schema is not complete or not valid.
"""
import json
import sys

try:
    import jsonschema

    import serving
    from schemas import Checker
except ImportError as absent:
    print(f"skipped: {absent.name} is not installed")
    sys.exit(77)

QUESTIONS = ("What is the weather in Oslo?", "Will it rain in Rome tomorrow?", "What is 17 times 23?",
             "Send a mail to Anna that I am late.", "Remind me to buy milk at five.", "How much is 3.5 plus 12?",
             "Tell Bob by mail that the meeting is over.", "Is it cold in Helsinki today?", "Divide 144 by 12.",
             "Remind me of the doctor on Monday.", "How warm will it be in Cairo?", "Write to Carla: see you tomorrow.")


def function(name, description, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters, "strict": True}}


TEXT = {"type": "string", "maxLength": 60}
TOOLS = [function("get_weather", "Returns the weather of a city.", city=TEXT,
                  day={"enum": ["today", "tomorrow"]}),
         function("calculate", "Computes a result.", left={"type": "number"}, right={"type": "number"},
                  operation={"enum": ["add", "subtract", "multiply", "divide"]}),
         function("send_mail", "Sends a mail.", to=TEXT, text=TEXT),
         function("set_reminder", "Reminds the user.", text=TEXT, time=TEXT)]
SCHEMA = {"type": "object", "properties": {"topic": {"enum": ["weather", "sum", "mail", "reminder"]},
                                           "subject": TEXT, "urgent": {"type": "boolean"}},
          "required": ["topic", "subject", "urgent"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "request", "schema": SCHEMA, "strict": True}}


def check_calls(choice):
    """Returns the calls as texts. Each must name a tool and have arguments that its schema allows."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
    calls = [call["function"] for call in choice["message"]["tool_calls"]]
    for call in calls:
        jsonschema.validate(json.loads(call["arguments"]), schemas[call["name"]])
    assert choice["finish_reason"] == "tool_calls" and calls, choice
    return [f"{call['name']} {call['arguments']}" for call in calls]


def check_schema(choice):
    jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMA)
    assert choice["finish_reason"] == "stop", choice
    return [choice["message"]["content"]]


KINDS = {"several calls": ({"tools": TOOLS, "tool_choice": "required"}, check_calls),
         "one call": ({"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}, check_calls),
         "schema": ({"response_format": FORMAT}, check_schema)}


def main():
    server, model, *limit = sys.argv[1:]
    failed = 0
    with serving.served(server, model) as base:
        for kind, (fields, check) in KINDS.items():
            num_valid = 0
            for question in QUESTIONS:
                answer = json.loads(Checker(base).post("/v1/chat/completions", {
                    "model": "m", "messages": [{"role": "user", "content": question}], "temperature": 0,
                    "max_tokens": int(limit[0]) if limit else 100, **fields}))
                try:
                    print(question, "->", *check(answer["choices"][0]), flush=True)
                    num_valid += 1
                except (AssertionError, KeyError, ValueError, jsonschema.ValidationError) as failure:
                    print(question, "-> FAILED:", json.dumps(answer["choices"][0]), repr(failure)[:200], flush=True)
            failed += len(QUESTIONS) - num_valid if kind != "several calls" else 0
            print(f"{kind}: {num_valid} of {len(QUESTIONS)} answers are complete and valid")
    sys.exit(failed > 0)


main()

"""What the calls of all Python clients share: keys of the server, tools, schemas and checks."""
import hashlib
import json

KEY = "k"
FEW = "few"  # a key that may send one request a minute
KEYS = [{"sha256": hashlib.sha256(KEY.encode()).hexdigest(), "owner": "tests"},
        {"sha256": hashlib.sha256(FEW.encode()).hexdigest(), "owner": "few", "requests_per_minute": 1}]

CITIES = ("Oslo", "Rome")
CITY = {"type": "object", "properties": {"city": {"type": "string", "enum": list(CITIES)}}, "required": ["city"],
        "additionalProperties": False}
FUNCTION = {"name": "weather", "description": "Returns the weather of a city.", "parameters": CITY, "strict": True}
TOOL = {"type": "function", "function": FUNCTION}
NO_END = {"1": -100, "2": -100}  # bias of the end tokens of the models that the tests use
QUESTION = "How warm is it in Oslo?"


def user(text):
    return [{"role": "user", "content": text}]


def must_fail(kind, function, *arguments, **named):
    """Returns the exception, which must be of that kind."""
    try:
        function(*arguments, **named)
    except kind as failure:
        return failure
    raise AssertionError(f"expected {kind}")


def is_city(value):
    """Checks an answer that follows the schema, as text or as an object."""
    value = json.loads(value) if isinstance(value, str) else value
    assert list(value) == ["city"] and value["city"] in CITIES, value


def is_call(name, arguments):
    assert name == "weather", name
    is_city(arguments)

"""Requests that several assertions about llama.cpp's server share (llama_assertions.py)."""

PROMPT = "Once upon a time there was a king who"
KEY = "sk-secret"
MESSAGES = [{"role": "system", "content": "Book"}, {"role": "user", "content": "What is the best book"}]
WORDS = ["the", "The", "to", "a", "an", "be", "is", "was", "but", "and", "so", "you", "he", "she", "we", "they", "it", "his", "her"]
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"], "additionalProperties": False}}}
ASSERTIONS = []


def assertion(function):
    ASSERTIONS.append(function)
    return function


def complete(m, **more):
    return m.post("/completion", **{"prompt": PROMPT, "n_predict": 8, "temperature": 0, **more})


def chat(m, **more):
    return m.post("/chat/completions", **{"messages": MESSAGES, "max_tokens": 8, "temperature": 0, **more})


def text_of(answer):
    return answer["choices"][0]["message"]["content"]


def lacks_words(text):
    assert text and not [word for word in WORDS if f" {word} " in text], text


def biased(m):
    return m.post("/tokenize", content=" " + " ".join(WORDS) + " ")["tokens"]

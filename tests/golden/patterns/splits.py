#!/usr/bin/env python3
"""Writes splits.json beside it: how the tokenizers of published families split texts, by the libraries that they are published for.

    pip install tokenizers==0.23.1 tiktoken==0.14.0
    python3 tests/golden/patterns/splits.py

The steps of `oniguruma` are those of a tokenizer.json, split by `tokenizers`. The patterns of `rust` are those of tiktoken and
tekken.json, split by `tiktoken`: each part of a text is a token of its own, so a piece is one token.
`constructs` are small patterns, one for each construct, in both dialects; null is a pattern that the library cannot split by.
"""
import json
import os
import random
import sys

import tiktoken
from tokenizers import Regex, Tokenizer, pre_tokenizers

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import compact  # noqa: E402

TEXTS = [
    "Hello, world! It's 3.14 or 2,718,281; they'LL've WE'RE",
    "1 12 123 1234 12345 123456 1234567 x12345678y 12_345 ²½ Ⅷ ٣٤٥٦٧",
    "def f(x):\n    return {'a': x[0]}  # comment\r\n\r\n\tend\n",
    "  leading   and trailing   ",
    "\n\n\n  \t \n x",
    "漢字とかなカナ mixed漢字text한국어 텍스트ㄱ",
    "Привет, мир! Ελληνικά ΣΊΣΥΦΟΣ ß ſ K ı İ",
    "مرحبا بالعالم، كيف؟ नमस्ते दुनिया। ไทยภาษา",
    "e\u0301a\u0308 n\u0303 x\u0301y nai\u0308ve café",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 ok!!! ... ——“quoted”…",
    "camelCaseHTTPServer snake_case_name XMLHttpRequest iPhone",
    "https://example.com/a-b?c=d&e=f#g a/b\\c ~`@$%^*+=|<>",
    "a\u00a0b\u3000c\u2028d\u0085e\u180ef\ufeffg\u200bh",
    "don't 'tis 'S 's 're o'clock's l'été",
    "\U00031350\U0002ebf0 \U0001fae8 \u1c89 \U00010d40",
    "",
]

CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
ONE_DIGIT = CL100K.replace(r"\p{N}{1,3}", r"\p{N}")
CASES = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = CASES.replace("(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")
PUNCTUATED = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
              r"\s*[\r\n]+|\s+(?!\S)|\s+")
NO_HAN = r"&&[^\p{Han}]]"
KIMI = "|".join([
    r"[\p{Han}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + NO_HAN + r"*[\p{Ll}\p{Lm}\p{Lo}\p{M}" + NO_HAN + r"+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + NO_HAN + r"+[\p{Ll}\p{Lm}\p{Lo}\p{M}" + NO_HAN + r"*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
])
NEW_CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
DIGIT_GROUPS = [r"\A\p{Nd}{1,2}(?=(?:\p{Nd}{3})+\z)", r"\A\p{Nd}{3}|\G\p{Nd}{3}"]


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def literal(pattern, behavior):
    return {"type": "Split", "pattern": {"String": pattern}, "behavior": behavior, "invert": False}


def digits(individual):
    return {"type": "Digits", "individual_digits": individual}


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}

FAMILIES = {
    "GPT-2, GPT-NeoX, OLMo, ModernBERT, MPT, Granite 3": [BYTE_LEVEL],
    "Llama 3, GLM-4, DBRX, SmolLM3, LFM2, MiniMax M2, Grok 2": [split(CL100K)],
    "Qwen2, Qwen3, dots1, MiMo, Hunyuan A13B, Ernie": [split(ONE_DIGIT)],
    "Qwen3.5": [split(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|"
                      r"\s+(?!\S)|\s+")],
    "gpt-oss, Llama 4, Phi-4-mini": [split(CASES)],
    "Mistral Nemo and later, Nemotron, Apertus": [split(TEKKEN)],
    "DeepSeek V3, R1": [split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(PUNCTUATED)],
    "DeepSeek V2, Coder, LLM": [split(r"[\r\n]"), split("\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕ]+"),
                                split(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), split(r"\s+$"), split("[一-龥ࠀ-一가-퟿]+"), digits(True)],
    "DeepSeek Coder of 2023": [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[一-龥ࠀ-一가-퟿]+"), digits(True)],
    "AFMoE": [split(r"\p{Nd}{1,510}"), split(DIGIT_GROUPS[0]), split(DIGIT_GROUPS[1]),
              split("[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⼿เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+"), split(PUNCTUATED)],
    "Tiny Aya, Cohere 2": [split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(CASES.replace(r"\p{N}{1,3}", r"\p{N}"))],
    "Command R, StarCoder, SmolLM": [digits(True), BYTE_LEVEL],
    "Falcon": [{"type": "Punctuation", "behavior": "Contiguous"}, BYTE_LEVEL, digits(False), split("[0-9][0-9][0-9]")],
    "BLOOM": [split(r" ?[^(\s|[.,!?…。，、।۔،])]+")],
    "Poro, Viking": [split(r" ?[^(\s|.,!?…。，、।۔،)]+")],
    "Kimi K2": [split(KIMI)],
    "EXAONE MoE": [split(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|"
                         r"\s*[\r\n]|\s+(?!\S)|\s+")],
    "Seed-OSS": [split(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+")],
    "Ling": [split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")],
    "NanoChat": [split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")],
    "GPT-4 of 2024": [split(NEW_CL100K)],
    "Jais 2": [split(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|"
                     r"\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}")],
    "SuperBPE": [split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))")],
    "Youtu": [split("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"), split(CASES)],
    "Gemma 3": [literal(" ", "MergedWithPrevious")],
    "Chameleon": [split("<sentinel:[0-9]+>"), split("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"), split(r"([\t\n]|    |  )"), split(r"\p{N}"),
                  split(r"[\p{P}!-/:-@\[-`{-~]"), BYTE_LEVEL],
}

RUST_FAMILIES = {
    "tekken": TEKKEN,
    "Kimi K2": KIMI,
    "GPT-4 of 2024": NEW_CL100K,
    "GPT-4o": CASES,
    "Qwen, Hunyuan": ONE_DIGIT,
    "Llama 3": CL100K,
}

CONSTRUCTS = [
    r"\b", r"\B", r"\bfoo\B", r"(?<=\b)a", r"a\b|\Bb", r"(?i:\bA)", r"\Gab", r"x|\Gab", r"\s|\Ga", r"a\Gb", r"(?=\Ga)a", r"\Aa", r"a\z", "^a", "a$",
    r"a+\b", r"[a-c&&b-d]+", r"[a-w&&[^c-g]z]+", r"[^\p{L}&&[^\p{Han}]]+", r"[\p{L}&&[^\p{Han}\p{Lu}]]+", r"[a-z&&b-d&&c]+", r"[^a-c&&[b-d&&[^c]]]+",
    r"[[a-d&&b]x]+", r"[a-c[^a-y]]+", r"[^a[^b]]+", r"[\W\d]+", r"[^\W\d]+", r"[\w&&\D]+", r"[\P{L}&&\S]+", r"[[^a]&&[^b]]+", r"[[^a][^b]]+",
    r"[a-z--c-e]+", r"[\p{L}--\p{Han}]+", r"[\w--\d--_]+", r"[a-d~~c-f]+", r"[^a-d~~c-f]+", r"\p{L}{1,2}+", r"\w+", r"a&&b", r"[a&b]+", r"[a-]+",
]
ALPHABET = list("abcdefgxyzABZ0123__  --&~'.\n") + ["é", "漢", "字", "か", "е", "\u0301", "²", "Ⅷ", "٣", "\u200d", "Ⓐ", "한", "\U00010d40", "foo", "ab"]


def pieces_by_tokenizers(steps):
    model = {"type": "BPE", "vocab": {}, "merges": []}
    text = json.dumps({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}, "model": model})
    splitter = Tokenizer.from_str(text).pre_tokenizer
    return lambda text: [piece for piece, _ in splitter.pre_tokenize_str(text)]


def pieces_by_tiktoken(pattern):
    def pieces(text):
        units = [c.encode() for c in text]
        parts = {bytes([i]): i for i in range(256)}
        for begin in range(len(units)):
            for end in range(begin + 1, len(units) + 1):
                parts.setdefault(b"".join(units[begin:end]), len(parts))
        encoding = tiktoken.Encoding("parts", pat_str=pattern, mergeable_ranks=parts, special_tokens={})
        return [encoding.decode_single_token_bytes(token).decode() for token in encoding.encode_ordinary(text)]
    return pieces


def by_construct(pattern, texts):
    """Returns the pieces of each text in both dialects; null if the library refuses the pattern."""
    try:
        splitter = pre_tokenizers.Split(Regex(pattern), "isolated")
        oniguruma = [[piece for piece, _ in splitter.pre_tokenize_str(text)] for text in texts]
    except BaseException:
        oniguruma = None
    try:
        rust = [pieces_by_tiktoken(pattern)(text) for text in texts]
    except BaseException:
        rust = None
    return {"pattern": pattern, "oniguruma": oniguruma, "rust": rust}


def main():
    choose = random.Random(39)
    texts = ["".join(choose.choice(ALPHABET) for _ in range(24)) for _ in range(12)] + ["ababxab", "foo foox food", "aab", "a\na\n"]
    document = {
        "texts": TEXTS,
        "oniguruma": [{"name": name, "steps": steps, "pieces": [pieces_by_tokenizers(steps)(text) for text in TEXTS]}
                      for name, steps in FAMILIES.items()],
        "rust": [{"name": name, "pattern": pattern, "pieces": [pieces_by_tiktoken(pattern)(text) for text in TEXTS]}
                 for name, pattern in RUST_FAMILIES.items()],
        "construct_texts": texts,
        "constructs": [by_construct(pattern, texts) for pattern in CONSTRUCTS],
    }
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "splits.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(compact.text_of(document))


if __name__ == "__main__":
    main()

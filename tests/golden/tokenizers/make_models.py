#!/usr/bin/env python3
"""Makes models.json: small SentencePiece models and a file of tiktoken ranks, and what those libraries do with them.

Run once, the result is committed:
    pip install sentencepiece==0.2.3 tiktoken==0.14.0
    python3 make_models.py > models.json
"""
import base64
import io
import json
import os
import random
import sys
import tempfile

import sentencepiece
import tiktoken

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(FOLDER))
import compact  # noqa: E402

RANDOM = random.Random(20261123)
CORPUS = [
    "the people were glad to see the king, and it didn't rain for 14 days.",
    "The children's king said: don't go to the town! Is it 3.14 or 2,718?",
    "def main(): return {'a': 1, \"b\": [2, 3]} # a comment",
    "h\u00e9llo w\u00f6rld, na\u00efve caf\u00e9 \u2014 \u201cquoted\u201d",
    "\u4e2d\u6587\u5b57\u7b26 \u65e5\u672c\u8a9e\u306e\u30c6\u30b9\u30c8",
    "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440",
    "go going gone goes  two  spaces   three",
] * 4
RULES = ["41\t61", "FF21\t41", "FB01\t66 69", "65 301\tE9", "BD\t31 2F 32", "61 61\t62", "2009\t20", "3000\t20", "4E2D\t7A 68", "200B\t",
         "1F600\t3A 29", "9\t20", "A\t20", "A0\t20"]
TEXTS = [
    " ", "   ", "a", "the king", "  the  king  ", "The King's TOWN.", "3.14 + 2,718 = ?", "na\u00efve CAF\u00c9 e\u0301 ae\u0301",
    "\u4e2d\u6587 mixed\u65e5\u672c\u306e text\u30c6", "\u043f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u03b1\u03b2\u03b3 \u0639\u0631\u0628\u064a \U0001f600\U0001f600x",
    "tab\there\nnew\r\nline\u00a0nbsp\u3000wide\u2009thin", "<s>start</s> <unk> <tok> mid<tok>dle<to>", "a  b <tok>  <tok> c", "x<0x0A>y \u2581under\u2581\u2581score",
    "\u200b\u200b", "\u200ba\u200b ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "...!!!???", "1234567890 12 3", "\uff21\uff22 \ufb01ne \u00bd", "<tok", " <tok><tok>king<tok>",
]
ALPHABET = list("aabcdeehinorst   .,'-<>10\n\t") + ["\u2581", "\u00e9", "e\u0301", "\u4e2d", "\u30a2", "\U0001f600", "<tok>", "the", " king", "\u03a9", "\u200b", "\ufb01", "A"]


def random_text():
    return "".join(RANDOM.choice(ALPHABET) for _ in range(RANDOM.randrange(1, 30)))


def train(kind, rules, **options):
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        if rules:
            path = os.path.join(folder, "rules.tsv")
            with open(path, "w") as file:
                file.write("\n".join(RULES) + "\n")
            options["normalization_rule_tsv"] = path
        else:
            options["normalization_rule_name"] = "identity"
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=model, model_type=kind, hard_vocab_limit=False,
                                                 num_threads=1, minloglevel=3, **options)
    return model.getvalue()


def sentencepiece_variants():
    for kind in ("unigram", "bpe"):
        for dummy, extra, fallback, tokens, rules in [(True, True, False, [], True), (True, False, True, [], False), (False, False, True, ["<tok>", "<to>"], False),
                                                     (True, False, False, ["<tok>", "ing", "\u4e2d\u6587"], True), (False, True, True, ["  "], True),
                                                     (True, True, False, ["<tok>", "a b"], True)]:
            size = 150 + (256 if fallback else 0)
            data = train(kind, rules, vocab_size=size, add_dummy_prefix=dummy, remove_extra_whitespaces=extra, byte_fallback=fallback,
                         user_defined_symbols=tokens, character_coverage=0.98)
            processor = sentencepiece.SentencePieceProcessor(model_proto=data)
            cases = []
            for text in TEXTS + [random_text() for _ in range(25)]:
                ids = processor.encode(text)
                cases.append({"text": text, "ids": ids, "decoded": processor.decode(ids)})
            yield {"file": base64.b64encode(data).decode(), "cases": cases}


def ranks():
    vocab = json.load(open(os.path.join(FOLDER, "llama3", "tokenizer.json")))["model"]["vocab"]
    spelled = {}
    fresh = 256
    for byte in range(256):
        itself = 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or 0xAE <= byte <= 0xFF
        spelled[chr(byte if itself else fresh)] = byte
        fresh += 0 if itself else 1
    tokens = [bytes(spelled[c] for c in text) for text, _ in sorted(vocab.items(), key=lambda item: item[1]) if all(c in spelled for c in text)]
    return {token: rank for rank, token in enumerate(tokens)}


PATTERNS = {
    "GPT2Tokenizer": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "GPT4Tokenizer": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "QWenTokenizer": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "GPT4oTokenizer": "|".join([
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
        r"""\p{N}{1,3}""", r""" ?[^\s\p{L}\p{N}]+[\r\n/]*""", r"""\s*[\r\n]+""", r"""\s+(?!\S)""", r"""\s+"""]),
}


def tiktoken_variants(table):
    texts = TEXTS + CORPUS[:7] + [random_text() for _ in range(25)] + ["I'LL'd DON'T", "CamelCaseWords andOthers", "a/\n/b", "\n\n  \n x"]
    for name, pattern in PATTERNS.items():
        encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=table, special_tokens={})
        cases = [{"text": text, "ids": encoding.encode(text), "decoded": encoding.decode(encoding.encode(text))} for text in texts]
        yield {"tokenizer_class": name, "cases": cases}


def main():
    table = ranks()
    lines = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in table.items())
    out = {"libraries": "sentencepiece 0.2.3, tiktoken 0.14.0", "sentencepiece": list(sentencepiece_variants()), "ranks": lines,
           "tiktoken": list(tiktoken_variants(table))}
    sys.stdout.write(compact.text_of(out))


main()

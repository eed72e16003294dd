#!/usr/bin/env python3
"""Makes tekken.json: a small tokenizer in Mistral's format, and the ids of texts.

Run once, the result is committed:
    pip install tiktoken==0.14.0
    python3 make_tekken.py > tekken.json
The ids are those of `tiktoken`, which mistral-common calls, and of a slow encoder written out below; both must agree. Ids of
ordinary tokens follow those of the special ones. The vocabulary has entries beyond default_vocab_size, as published files do.
"""
import base64
import collections
import os
import sys

import regex
import tiktoken

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import compact  # noqa: E402

PATTERN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
           r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
           r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
           "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]",
           "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]", "[THINK]", "[/THINK]"]
NUM_SPECIAL = 30
NUM_MERGES = 160
NUM_BEYOND = 8
CORPUS = [
    "The people were glad to see the king, and it didn't rain for 14 days. The children's king said: don't go to the town!",
    "def main(): return {'a': 1, \"b\": [2, 3]}  # a comment\n    print(main())\n\n",
    "héllo wörld, naïve café — “quoted” 中文字符 日本語のテスト привет мир",
    "going gone goes  two  spaces   three HTTPServer camelCase",
]
TEXTS = [
    "", " ", "a", "the king", " the  king ", "The King's TOWN.", "didn't do not they 've", "3.14 + 2,718 = ? 1234567",
    "naïve CAFÉ e\u0301\u0323a", "中文 mixed日本の textテ", "привет, мир!", "zebra quartz αβγ عربي עב",
    "\U0001f600 smile \U0001f468\u200d\U0001f469", "tab\there\nnew\r\nline\u00a0nbsp\u3000wide\u2009thin", "<s>[INST] no [/INST]</s>",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "...!!!???/\n/", "camelCaseHTTPServer goes", "    return {'a': x}\n\n\n", "\x00\x07\ufeff\ufffd",
    "thethethekingking the the", "wörldwörld — “quoted” “", "'s 't 'RE",
]


def slow_encode(ranks, pieces):
    """Merges the pair of lowest rank, the leftmost of equals, until no pair is a token."""
    ids = []
    for piece in pieces:
        parts = [bytes([byte]) for byte in piece]
        while True:
            ranked = [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]
            if not ranked:
                break
            _, i = min(ranked)
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        ids += [ranks[part] for part in parts]
    return ids


def pieces_of(text):
    return [match.encode() for match in regex.findall(PATTERN, text)]


def train():
    words = [[bytes([byte]) for byte in piece] for text in CORPUS for piece in pieces_of(text)]
    tokens = [bytes([i]) for i in range(256)]
    while len(tokens) < 256 + NUM_MERGES + NUM_BEYOND:
        pairs = collections.Counter((a, b) for word in words for a, b in zip(word, word[1:]))
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if best[0] + best[1] not in tokens:
            tokens.append(best[0] + best[1])
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == best:
                    word[i:i + 2] = [best[0] + best[1]]
                i += 1
    return tokens


def text_or_none(token):
    try:
        return token.decode()
    except UnicodeDecodeError:
        return None


def main():
    tokens = train()
    used = {token: rank for rank, token in enumerate(tokens[:256 + NUM_MERGES])}
    encoding = tiktoken.Encoding("small", pat_str=PATTERN, mergeable_ranks=used, special_tokens={})
    cases = []
    for text in TEXTS:
        ids = encoding.encode_ordinary(text)
        assert ids == slow_encode(used, pieces_of(text)), text
        cases.append({"text": text, "ids": [NUM_SPECIAL + token for token in ids]})
    file = {
        "config": {"pattern": PATTERN, "num_vocab_tokens": len(tokens), "default_vocab_size": NUM_SPECIAL + len(used),
                   "default_num_special_tokens": NUM_SPECIAL, "version": "v11"},
        "vocab": [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": text_or_none(token)}
                  for rank, token in enumerate(tokens)],
        "special_tokens": [{"rank": rank, "token_str": token, "is_control": True} for rank, token in enumerate(SPECIAL)],
    }
    sys.stdout.write(compact.text_of({"file": file, "cases": cases}))


if __name__ == "__main__":
    main()

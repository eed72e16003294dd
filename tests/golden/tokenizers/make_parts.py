#!/usr/bin/env python3
"""Makes parts.json: small tokenizers of random parts, and what the `tokenizers` library does with them.

Run once, the result is committed:
    pip install tokenizers==0.23.3 sentencepiece==0.2.3
    python3 make_parts.py > parts.json
Every variant is a whole tokenizer.json; its "model" is either inline or the name of one in "models".
"""
import base64
import io
import json
import os
import random
import sys
import tempfile

import sentencepiece
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import compact  # noqa: E402

RANDOM = random.Random(20261122)
CORPUS = [
    "the people were glad to see the king, and it didn't rain for 14 days.",
    "The children's king said: don't go to the town! Is it 3.14 or 2,718?",
    "def main(): return {'a': 1, \"b\": [2, 3]} # a comment",
    "h\u00e9llo w\u00f6rld, na\u00efve caf\u00e9 \u2014 \u201cquoted\u201d",
    "\u4e2d\u6587\u5b57\u7b26 \u65e5\u672c\u8a9e\u306e\u30c6\u30b9\u30c8",
    "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440",
    "go going gone goes  two  spaces   three",
] * 3
CORPUS_LATIN = CORPUS[:3]

TEXTS = [
    "", " ", "a", "the king", " the  king ", "The King's TOWN.", "didn't do not they 've", "3.14 + 2,718 = ?",
    "na\u00efve CAF\u00c9 na\u0131ve \u0130stanbul e\u0301\u0323a", "\u4e2d\u6587 mixed\u65e5\u672c\u306e text\u30c6",
    "\u043f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "zebra quartz \u03b1\u03b2\u03b3 \u0639\u0631\u0628\u064a \u05e2\u05d1",
    "\U0001f600 smile \U0001f468\u200d\U0001f469", "tab\there\nnew\r\nline\u00a0nbsp\u3000wide\u2009thin",
    "<s>start</s> [X] mid<tok>dle <tok> end", "[X][X] <tok>a<tok> b", "x<0x0A>y \u2581under\u2581score \u0120",
    "gogoing\u2581 the\u2581king", "\uff21\uff22\uff23 \u2460\u2461 \ufb01ne \u00bd", "\u0000nul \u0007bell \u200bzero \ufeffbom\ufffd",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "...!!!???", "--a-b--", "a,b;c d", "1234567890 12 3",
    "\u0e44\u0e17\u0e22 \u0939\u093f\u0928\u094d\u0926\u0940 \ud55c\uad6d\uc5b4", "\u16a0\u16b1 \u2c80 \u1f600 \u0958",
]
ALPHABET = list("aabcdeehinorst  .,'-<>[]X10\n\t") + ["\u2581", "\u00e9", "e\u0301", "\u4e2d", "\u30a2", "\U0001f600", "\u00df", "\u0130",
                                                     "<tok>", "<s>", "the", " king", "\u03a9", "\u0416", "\u00a0", "\u2028", "\u0903", "\ufb01", "\u0e33"]


def random_text():
    return "".join(RANDOM.choice(ALPHABET) for _ in range(RANDOM.randrange(1, 24)))


def trained(model, trainer, corpus, pre=None):
    tokenizer = Tokenizer(model)
    if pre is not None:
        tokenizer.pre_tokenizer = pre
    tokenizer.train_from_iterator(corpus, trainer)
    return json.loads(tokenizer.to_str())["model"]


def with_bytes(model, every):
    """Byte tokens for all bytes, or for most."""
    vocab = model["vocab"]
    for byte in range(256):
        if every or byte % 7:
            vocab[f"<0x{byte:02X}>"] = len(vocab)
    return dict(model, byte_fallback=True)


def make_models():
    space = pre_tokenizers.WhitespaceSplit()
    metaspace = pre_tokenizers.Metaspace()
    specials = ["<unk>", "<s>", "</s>"]
    def bpe(pre, corpus, unk=None, fuse=False, **affixes):
        given = {key: value for key, value in dict(affixes, unk_token=unk).items() if value is not None}
        trainer = trainers.BpeTrainer(vocab_size=180, special_tokens=specials, show_progress=False, **affixes)
        return trained(models.BPE(fuse_unk=fuse, **given), trainer, corpus, pre)

    out = {
        "bpe_plain": bpe(metaspace, CORPUS_LATIN),
        "bpe_unk": bpe(metaspace, CORPUS_LATIN, unk="<unk>"),
        "bpe_fuse": bpe(metaspace, CORPUS_LATIN, unk="<unk>", fuse=True),
        "bpe_prefix": bpe(space, CORPUS_LATIN, unk="<unk>", continuing_subword_prefix="##"),
        "bpe_suffix": bpe(space, CORPUS_LATIN, unk="<unk>", end_of_word_suffix="</w>"),
        "bpe_both": bpe(space, CORPUS_LATIN, unk="<unk>", continuing_subword_prefix="@@", end_of_word_suffix="</w>"),
        "bpe_bytes": trained(models.BPE(), trainers.BpeTrainer(vocab_size=400, special_tokens=specials, show_progress=False,
                                                               initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
                             CORPUS, pre_tokenizers.ByteLevel()),
        "wordpiece": trained(models.WordPiece(unk_token="<unk>"),
                             trainers.WordPieceTrainer(vocab_size=260, special_tokens=specials, show_progress=False), CORPUS,
                             pre_tokenizers.BertPreTokenizer()),
        "wordlevel": trained(models.WordLevel(unk_token="<unk>"),
                             trainers.WordLevelTrainer(vocab_size=80, special_tokens=specials, show_progress=False), CORPUS,
                             pre_tokenizers.Whitespace()),
        "unigram": trained(models.Unigram(), trainers.UnigramTrainer(vocab_size=160, special_tokens=specials, unk_token="<unk>",
                                                                     show_progress=False), CORPUS, metaspace),
    }
    out["bpe_fallback"] = with_bytes(json.loads(json.dumps(out["bpe_fuse"])), True)
    out["bpe_some_fallback"] = with_bytes(json.loads(json.dumps(out["bpe_unk"])), False)
    out["bpe_some_fallback_fuse"] = with_bytes(json.loads(json.dumps(out["bpe_fuse"])), False)
    out["bpe_whole"] = dict(out["bpe_unk"], ignore_merges=True)
    unigram = json.loads(json.dumps(out["unigram"]))
    unigram["vocab"] += [[f"<0x{byte:02X}>", -1.0 - byte / 100] for byte in range(256)]
    out["unigram_fallback"] = dict(unigram, byte_fallback=True)
    # Tokens of which no character is a token: unknown runs that are a token all the same.
    out["unigram_runs"] = {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
                           "vocab": [["<unk>", 0.0], ["\u03b1\u03b2", -3.0], ["a", -2.0], ["aa", -2.5], ["\u2581", -1.0],
                                     ["the", -2.0], ["\u2581the", -4.0], ["\u4e2d\u6587", -90.0], ["t", -1.5], ["he", -1.25]]}
    out["wordpiece_short"] = dict(out["wordpiece"], max_input_chars_per_word=6)
    return out


def charsmap():
    """SentencePiece's own form of a few replacement rules."""
    rules = ["41\t61", "FF21\t41", "FB01\t66 69", "65 301\tE9", "E9\t65", "BD\t31 2F 32", "61 61\t62", "2009\t20", "3000\t20", "20 20\t20",
             "4E2D\t7A 68", "200B\t", "1F600\t3A 29", "301\t", "30A2\t41", "D A\tA"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rules.tsv")
        with open(path, "w") as file:
            file.write("\n".join(rules) + "\n")
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS * 5), model_writer=model, vocab_size=120,
                                                 normalization_rule_tsv=path, hard_vocab_limit=False, minloglevel=3)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    proto = model.getvalue()
    # normalizer_spec is field 3, precompiled_charsmap field 2 of it.
    def fields(data):
        pos = 0
        def varint():
            nonlocal pos
            value = shift = 0
            while True:
                byte = data[pos]; pos += 1
                value |= (byte & 127) << shift; shift += 7
                if byte < 128:
                    return value
        while pos < len(data):
            key = varint()
            if key & 7 == 2:
                size = varint(); yield key >> 3, data[pos:pos + size]; pos += size
            elif key & 7 == 0:
                yield key >> 3, varint()
            else:
                size = {5: 4, 1: 8}[key & 7]; yield key >> 3, data[pos:pos + size]; pos += size
    spec = next(value for number, value in fields(proto) if number == 3)
    return base64.b64encode(next(value for number, value in fields(spec) if number == 2)).decode()


CHARSMAP = charsmap()
METASPACES = [{"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split}
              for scheme in ("always", "first", "never") for split in (True, False)]
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def byte_level():
    return {"type": "ByteLevel", "add_prefix_space": RANDOM.random() < 0.5, "trim_offsets": True, "use_regex": RANDOM.random() < 0.5}


def any_normalizer():
    flag = lambda: RANDOM.random() < 0.5
    return RANDOM.choice([
        lambda: {"type": RANDOM.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"])},
        lambda: {"type": "Strip", "strip_left": flag(), "strip_right": flag()},
        lambda: {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]},
        lambda: {"type": "Replace", "pattern": {"String": RANDOM.choice([" ", "  ", "a", "th", "''"])}, "content": RANDOM.choice(["\u2581", "", "_ "])},
        lambda: {"type": "Replace", "pattern": {"Regex": RANDOM.choice([" {2,}", "\\s+$", "[aeiou]", "^\\s*", "(?i)THE"])}, "content": RANDOM.choice([" ", "", "<>"])},
        lambda: {"type": "Prepend", "prepend": RANDOM.choice(["\u2581", " ", "a"])},
        lambda: {"type": "Precompiled", "precompiled_charsmap": "CHARSMAP"},
        lambda: {"type": "BertNormalizer", "clean_text": flag(), "handle_chinese_chars": flag(),
                 "strip_accents": RANDOM.choice([None, True, False]), "lowercase": flag()},
    ])()


def any_pre_tokenizer():
    return RANDOM.choice([
        lambda: RANDOM.choice(METASPACES),
        lambda: {"type": RANDOM.choice(["Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts"])},
        lambda: {"type": "Punctuation", "behavior": RANDOM.choice(BEHAVIORS)},
        lambda: {"type": "Digits", "individual_digits": RANDOM.random() < 0.5},
        lambda: {"type": "CharDelimiterSplit", "delimiter": RANDOM.choice([" ", "a", "\u2581"])},
        lambda: {"type": "FixedLength", "length": RANDOM.randrange(1, 7)},
        lambda: {"type": "Split", "pattern": RANDOM.choice([{"String": RANDOM.choice([" ", "a", "th", "\u2581"])}, {"Regex": RANDOM.choice(["\\s+", "\\p{L}+", "[aeiou]", "\\d"])}]),
                 "behavior": RANDOM.choice(BEHAVIORS), "invert": RANDOM.random() < 0.3},
    ])()


def sequence(maker, key, most):
    count = RANDOM.randrange(0, most + 1)
    if count == 0:
        return None
    if count == 1:
        return maker()
    return {"type": "Sequence", key: [maker() for _ in range(count)]}


def any_decoder():
    replace = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    strip = lambda: {"type": "Strip", "content": RANDOM.choice([" ", "a"]), "start": RANDOM.randrange(0, 3), "stop": RANDOM.randrange(0, 2)}
    return RANDOM.choice([
        lambda: None,
        lambda: byte_level(),
        lambda: RANDOM.choice(METASPACES),
        lambda: {"type": "WordPiece", "prefix": "##", "cleanup": RANDOM.random() < 0.5},
        lambda: {"type": "BPEDecoder", "suffix": "</w>"},
        lambda: {"type": "CTC", "pad_token": "<s>", "word_delimiter_token": "\u2581", "cleanup": RANDOM.random() < 0.5},
        lambda: {"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}]},
        lambda: {"type": "Sequence", "decoders": [replace, {"type": "ByteFallback"}, {"type": "Fuse"}, dict(strip(), stop=0)]},
        lambda: {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}, replace]},
        lambda: {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Replace", "pattern": {"String": "he"}, "content": "HE"}]},
        lambda: {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"Regex": "[\u2581 ]+"}, "content": " "}, {"type": "ByteFallback"}]},
        lambda: {"type": "Sequence", "decoders": [{"type": "WordPiece", "prefix": "##", "cleanup": True}, {"type": "Fuse"}]},
    ])()


def any_post_processor():
    return RANDOM.choice([
        lambda: None, lambda: None,
        lambda: {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]},
        lambda: {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1], "trim_offsets": True, "add_prefix_space": False},
        lambda: {"type": "Sequence", "processors": [
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
            {"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 1]},
            {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
             "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
             "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}]},
    ])()


def size_of(model):
    return len(model["vocab"])


def added_tokens(model):
    flag = lambda: RANDOM.random() < 0.3
    known = model["vocab"] if isinstance(model["vocab"], dict) else {token: idx for idx, (token, _) in enumerate(model["vocab"])}
    tokens = [{"id": known[text], "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
              for text in ("<unk>", "<s>", "</s>") if text in known]
    next_id = size_of(model)
    for text in ("<tok>", "[X]"):
        if RANDOM.random() < 0.6:
            next_id += 1
            tokens.append({"id": next_id - 1, "content": text, "single_word": flag(), "lstrip": flag(), "rstrip": flag(),
                           "normalized": flag(), "special": flag()})
    return tokens


def make_variant(all_models, name):
    model = all_models[name]
    if name == "bpe_bytes":
        pre = RANDOM.choice([byte_level(), {"type": "Sequence", "pretokenizers": [any_pre_tokenizer(), byte_level()]},
                             {"type": "Sequence", "pretokenizers": [byte_level(), {"type": "Digits", "individual_digits": True}]}])
        normalizer = sequence(any_normalizer, "normalizers", 1)
        if RANDOM.random() < 0.2:
            pre, normalizer = None, {"type": "ByteLevel"}
    else:
        pre = sequence(any_pre_tokenizer, "pretokenizers", 2)
        normalizer = sequence(any_normalizer, "normalizers", 3)
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added_tokens(model), "normalizer": normalizer,
            "pre_tokenizer": pre, "post_processor": any_post_processor() if name != "unigram_runs" else None, "decoder": any_decoder(), "model": name}


def filled(variant, all_models):
    text = json.dumps(dict(variant, model=all_models[variant["model"]]))
    return text.replace('"CHARSMAP"', json.dumps(CHARSMAP))


def depends_on_offsets(variant):
    """Whether a piece begins a text is told by its place in the text before normalization, which matters only here."""
    steps = (variant["pre_tokenizer"] or {}).get("pretokenizers", [])
    return variant["normalizer"] is not None and any(step.get("prepend_scheme") == "first" for step in steps[1:])


def make_cases(tokenizer, variant):
    cases = []
    for text in RANDOM.sample(TEXTS, 8) + [random_text() for _ in range(3)]:
        try:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
        except Exception:  # a character that the model cannot spell
            cases.append({"text": text, "refused": True})
            continue
        except BaseException:  # the library's own steps may panic
            continue
        case = {"text": text, "ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False)}
        whole = tokenizer.encode(text).ids
        if whole != ids:
            case["with_template"] = whole
        shown = tokenizer.decode(ids, skip_special_tokens=True)
        if shown != case["decoded"]:
            case["shown"] = shown
        cases.append(case)
    return cases


def main():
    all_models = make_models()
    variants = []
    for name in all_models:
        for _ in range(7 if name != "bpe_bytes" else 12):
            variant = make_variant(all_models, name)
            while depends_on_offsets(variant):
                variant = make_variant(all_models, name)
            try:
                tokenizer = Tokenizer.from_str(filled(variant, all_models))
                cases = make_cases(tokenizer, variant)
            except BaseException as error:  # the library's own steps may panic
                print(f"{name}: {error!r}", file=sys.stderr)
                continue
            variants.append({"file": variant, "cases": cases})
    out = {"library": "tokenizers 0.23.3", "charsmap": CHARSMAP, "models": all_models, "variants": variants}
    sys.stdout.write(compact.text_of(out))


main()

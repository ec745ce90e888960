#!/usr/bin/env python3
"""Makes test/vectors/tokenizer: small tokenizers of the shapes in use and the ids the reference gives odd texts.

Needs the `tokenizers` package (the reference implementation). usage: tokenizer_vectors.py [MORE_TOKENIZER_JSON ...]
With further files, prints vectors for those to standard output instead of writing any.
"""
import json
import os
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "vectors", "tokenizer")
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")

TEXTS = [
    "", " ", "  ", "\n", "\r\n", "\t\t x", "Hello, world!", "hello  world   ", " leading", "trailing ",
    "It's we'll I'D you'Re they\u2019ve 'S 'LL '\u017f", "1234567890 3.14159 1,000,000 \u00b2\u00b3 \u0664\u0665 \u2167",
    "naive cafe\u0301 e\u0301\u0300 \u1e9b\u0323 \u212b \u1100\u1161\u11a8", "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \u3053\u3093\u306b\u3061\u306f",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645", "\u0928\u092e\u0938\u094d\u0924\u0947",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea \u2764\ufe0f",
    "a\u00a0b\u2003c\u3000d\u180ee\u0085f\u2028g\u200bh\ufeffi", "\x00\x01\x1f\x7f", "\U0010ffff\ufffd\ue000",
    "def f(x):\n    return x**2  # comment\n\n\n\tif x != 0x1F:\r\n        pass\n", "https://example.org/a?b=c&d=%20#frag",
    "<|im_start|>user\nhi<|im_end|>\n", "<|im_start|><|im_start|>", "x<|im_end|>y <|endoftext|>", "<|im_start", "<|im_end|",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ab" * 300, "!?!?...---===", "\n\n\n \n  \n",
    "tab\tnew\nline\rret", "MiXeD CaSe WORDS", "\u00df\u0130\u01c5", "\u2460\u2461 \u00bd", "x" + " " * 50 + "y", "   \n", "\n   x",
    "don't 'til '90s rock'n'roll", "\u200d\u0301", "\U0001d54f\U0001d7d8", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "<tool>a</tool> <tool >",
    "mask [MASK] end", "word[MASK]word  [MASK]  x",
]


def corpus():
    words = "the cat sat on a mat and hello world return function value number token model weight plan kernel".split()
    yield " ".join(words) * 40
    yield from TEXTS * 3
    for i in range(200):
        yield f"{words[i % 17]} {words[(i * 7) % 17]}, {i} {i * i}.\nIt's {words[(i * 5) % 17]}'s."


def make(name, normalizer, pre, post=None, extra=()):
    t = Tokenizer(models.BPE())
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre, decoders.ByteLevel()
    special = [AddedToken(s, special=True, normalized=False) for s in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=600, special_tokens=special, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_tokens(list(extra))
    if post:
        t.post_processor = post(t)
    t.save(os.path.join(OUT, name + ".json"), pretty=False)
    return t


def vectors(t):
    out = []
    for text in TEXTS:
        ids = t.encode(text).ids
        out.append({"text": text, "ids": ids, "plain": t.encode(text, add_special_tokens=False).ids,
                    "decoded": t.decode(ids, skip_special_tokens=True),
                    "decoded_all": t.decode(ids, skip_special_tokens=False)})
    return out


def main():
    if len(sys.argv) > 1:
        for path in sys.argv[1:]:
            json.dump(vectors(Tokenizer.from_file(path)), sys.stdout)
        return
    os.makedirs(OUT, exist_ok=True)
    split = lambda p: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(p), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    bos = lambda t: processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|endoftext|> $A", pair="<|endoftext|> $A <|endoftext|> $B",
        special_tokens=[("<|endoftext|>", t.token_to_id("<|endoftext|>"))])])
    made = {
        "gpt2": make("gpt2", None, pre_tokenizers.ByteLevel(add_prefix_space=False)),
        "gpt2_prefix": make("gpt2_prefix", None, pre_tokenizers.ByteLevel(add_prefix_space=True)),
        "smollm": make("smollm", None, pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])),
        "qwen2": make("qwen2", normalizers.NFC(), split(QWEN2)),
        "qwen35": make("qwen35", normalizers.NFC(), split(QWEN35)),
        "llama3": make("llama3", None, split(LLAMA3), bos),
        "added": make("added", normalizers.NFKC(), split(QWEN2), None, [
            AddedToken("<tool>", normalized=True), AddedToken("[MASK]", lstrip=True, rstrip=True, normalized=False),
            AddedToken("word", single_word=True, normalized=False)]),
    }
    for name, t in made.items():
        with open(os.path.join(OUT, name + ".vectors.json"), "w", encoding="utf-8") as f:
            json.dump({"tokenizers_version": tokenizers.__version__, "vectors": vectors(t)}, f, ensure_ascii=True)


if __name__ == "__main__":
    main()

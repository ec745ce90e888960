"""A byte-level BPE trainer and encoder, small enough to read, and its tokenizer.json.

The pre-tokenizer is the Qwen2 pattern; PATTERN is its restriction to ASCII text, which the demo corpus is.
"""
import collections
import json
import re

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERN = re.compile(r"(?:'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD]))|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]"
                     r"| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_alphabet():
    """byte -> printable character, as every byte-level BPE vocabulary spells it."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {}, 0
    for b in range(256):
        if b in keep:
            table[b] = chr(b)
        else:
            table[b] = chr(256 + extra)
            extra += 1
    return table


BYTES = byte_alphabet()


class Bpe:
    def __init__(self, merges):
        self.merges = merges
        self.rank = {m: i for i, m in enumerate(merges)}
        self.vocab = {}
        for b in range(256):
            self.vocab[BYTES[b]] = len(self.vocab)
        for a, b in merges:
            self.vocab[a + b] = len(self.vocab)
        self.special = {s: len(self.vocab) + i for i, s in enumerate(SPECIAL)}
        self.cache = {}

    @property
    def size(self):
        return len(self.vocab) + len(self.special)

    def word(self, piece):
        if piece not in self.cache:
            parts = [BYTES[b] for b in piece.encode()]
            while len(parts) > 1:
                best = min(range(len(parts) - 1), key=lambda i: self.rank.get((parts[i], parts[i + 1]), 1 << 30))
                if (parts[best], parts[best + 1]) not in self.rank:
                    break
                parts[best:best + 2] = [parts[best] + parts[best + 1]]
            self.cache[piece] = [self.vocab[p] for p in parts]
        return self.cache[piece]

    def encode(self, text):
        ids = []
        for part in re.split("(" + "|".join(map(re.escape, SPECIAL)) + ")", text):
            if part in self.special:
                ids.append(self.special[part])
            elif part:
                for piece in PATTERN.findall(part):
                    ids += self.word(piece)
        return ids

    def decode(self, ids):
        inverse = {i: t for t, i in self.vocab.items()}
        back = {c: b for b, c in BYTES.items()}
        special = {i: s for s, i in self.special.items()}
        out = bytearray()
        for i in ids:
            out += special[i].encode() if i in special else bytes(back[c] for c in inverse[i])
        return out.decode(errors="replace")

    def to_json(self):
        added = [{"id": i, "content": s, "single_word": False, "lstrip": False, "rstrip": False,
                  "normalized": False, "special": True} for s, i in self.special.items()]
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
        return json.dumps({
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "NFC"},
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": QWEN2}, "behavior": "Isolated", "invert": False}, byte_level]},
            "post_processor": byte_level, "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": self.vocab, "merges": [[a, b] for a, b in self.merges]},
        }, ensure_ascii=False, indent=1)


def train(text, size):
    """Merges until the vocabulary holds `size` entries including the special tokens. Ties: the smaller pair."""
    for s in SPECIAL:
        text = text.replace(s, "\x00")
    words = collections.Counter(p for part in text.split("\x00") for p in PATTERN.findall(part))
    pieces = {w: [BYTES[b] for b in w.encode()] for w in words}
    merges = []
    while 256 + len(merges) + len(SPECIAL) < size:
        pairs = collections.Counter()
        for w, p in pieces.items():
            for pair in zip(p, p[1:]):
                pairs[pair] += words[w]
        if not pairs:
            break
        best = min(pairs, key=lambda k: (-pairs[k], k))
        if pairs[best] < 2:
            break
        merges.append(best)
        for w, p in pieces.items():
            i = 0
            while i + 1 < len(p):
                if (p[i], p[i + 1]) == best:
                    p[i:i + 2] = [p[i] + p[i + 1]]
                i += 1
    return Bpe(merges)

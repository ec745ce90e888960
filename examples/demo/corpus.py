#!/usr/bin/env python3
"""The text the demo model learns: short chats whose answers can be checked by a rule.

Every chat is ChatML. Kinds: addition of two numbers below 100, comparison, counting, sorting three numbers,
and facts about ten animals. One tenth of all addition pairs is never shown (`held_out`), so exact answers on those
pairs measure what was learned and not what was stored.
"""
import random

import tokenizer

ANIMALS = {
    # name: (food, home, colour)
    "fox": ("berries", "the dry hill", "red"), "owl": ("mice", "the old tree", "brown"),
    "bear": ("honey", "the deep cave", "black"), "frog": ("flies", "the green pond", "green"),
    "mole": ("worms", "the soft ground", "grey"), "heron": ("fish", "the wide river", "blue"),
    "hare": ("clover", "the open field", "white"), "newt": ("snails", "the cold stream", "orange"),
    "crow": ("corn", "the high tower", "dark"), "goat": ("grass", "the steep cliff", "cream"),
}


def held_out(a, b):
    """True for the addition pairs that training never shows."""
    # A multiplicative hash, so that no digit of a, b or their sum is held out as a whole.
    return ((a * 100 + b) * 2654435761 % 2**32 >> 16) % 10 == 3


def prompt(question):
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


def chat(question, answer):
    return f"{prompt(question)}{answer}<|im_end|>\n"


def addition(rng, test=False):
    while True:
        a, b = rng.randrange(100), rng.randrange(100)
        if held_out(a, b) == test:
            return f"What is {a} plus {b}?", f"{a} plus {b} is {a + b}."


def comparison(rng):
    a, b = rng.sample(range(100), 2)
    return f"Which is larger, {a} or {b}?", f"{max(a, b)} is larger than {min(a, b)}."


def counting(rng):
    a = rng.randrange(90)
    b = a + rng.randrange(2, 8)
    return f"Count from {a} to {b}.", ", ".join(str(i) for i in range(a, b + 1)) + "."


def sorting(rng):
    n = rng.sample(range(100), 3)
    return "Sort " + ", ".join(map(str, n)) + ".", ", ".join(map(str, sorted(n))) + "."


def fact(rng):
    name = rng.choice(sorted(ANIMALS))
    food, home, colour = ANIMALS[name]
    return rng.choice([
        (f"What does the {name} eat?", f"The {name} eats {food}."),
        (f"Where does the {name} live?", f"The {name} lives near {home}."),
        (f"What colour is the {name}?", f"The {name} is {colour}."),
        (f"Tell me about the {name}.",
         f"The {name} is {colour}. It lives near {home} and eats {food}."),
        (f"Who eats {food}?", f"The {name} eats {food}."),
    ])


def sample(rng):
    r = rng.random()
    make = (addition if r < 0.55 else comparison if r < 0.65 else counting if r < 0.77
            else sorting if r < 0.88 else fact)
    return make(rng)


def tokenizer_of(rng, size):
    """A tokenizer of at most `size` entries trained on 20000 chats of `rng`."""
    bpe = tokenizer.train("".join(chat(*sample(rng)) for _ in range(20000)), size)
    assert bpe.size <= size, bpe.size
    return bpe


def rows(rng, bpe, count, length):
    """`count` rows of `length` token ids, each chats from its first token on, and the weight of each token in the loss."""
    ids, weights = [], []
    for _ in range(count):
        row, weight = [], []
        while len(row) < length:
            question, answer = sample(rng)
            head, tail = bpe.encode(prompt(question)), bpe.encode(f"{answer}<|im_end|>\n")
            row += head + tail
            weight += [0.1] * len(head) + [1.0] * len(tail)
        ids.append(row[:length])
        weights.append(weight[:length])
    return ids, weights


def test_set(count, seed=20):
    """`count` held-out questions with their only right answer: two thirds additions, the rest the other kinds."""
    rng = random.Random(seed)
    out = []
    for i in range(count):
        out.append(addition(rng, test=True) if i % 3 != 2 else rng.choice([comparison, counting, sorting, fact])(rng))
    # "Who eats ..." and the like are functions of the question, so every answer is unique.
    return out


if __name__ == "__main__":
    r = random.Random(1)
    print("".join(chat(*sample(r)) for _ in range(20)), end="")

#!/usr/bin/env python3
"""Images in prompts through `ninfer-exec chat`, `run` and `serve`. usage: images.py --bin DIR

The model is a tiny random one (test/vectors/hybrid/vision) with a tokenizer of single bytes and a chat template that knows images;
its logits with images are compared with transformers elsewhere (test/unit/compiler/ImagePromptTest.cpp). Here: that every way to the
same prompt gives the same answer, and that what makes no sense is refused by name. Answers are drawn at temperature 8, so they
follow every logit.
"""
import argparse
import base64
import json
import os
import shutil
import struct
import subprocess
import tempfile
import zlib

from server import ROOT, Server, check

IMAGES = os.path.join(ROOT, "test", "vectors", "vision")
TEMPLATE = """
{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string %}{{- message.content }}
{%- else %}
{%- for part in message.content %}
{%- if part.type == 'image' or 'image' in part %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- elif 'text' in part %}{{- part.text }}
{%- endif %}
{%- endfor %}
{%- endif %}{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
PLACE = "<|vision_start|><|image_pad|><|vision_end|>"
DRAWN = ("--temp", "8", "--ignore-eos", "--special", "-n", "12")


def checkpoint(folder, special, template=TEMPLATE):
    shutil.copytree(os.path.join(ROOT, "test", "vectors", "hybrid", "vision"), folder)
    characters = [chr(c) for c in range(33, 127)] + ["\u0120", "\u010a"]  # printable ASCII, blank, line feed
    token = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    files = {
        "tokenizer.json": dict(
            version="1.0", truncation=None, padding=None, normalizer=None, pre_tokenizer=level, post_processor=None, decoder=level,
            added_tokens=[dict(token, id=len(characters) + i, content=s) for i, s in enumerate(special)],
            model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                       fuse_unk=False, byte_fallback=False, ignore_merges=False, vocab={c: i for i, c in enumerate(characters)},
                       merges=[])),
        "tokenizer_config.json": {"eos_token": "<|im_end|>"},
        "generation_config.json": {"eos_token_id": len(characters) + 1},
        "preprocessor_config.json": dict(patch_size=4, merge_size=2, temporal_patch_size=2, image_mean=[.5] * 3, image_std=[.5] * 3,
                                         size=dict(shortest_edge=256, longest_edge=1024)),
    }
    for name, content in files.items():
        with open(os.path.join(folder, name), "w") as f:
            json.dump(content, f)
    with open(os.path.join(folder, "chat_template.jinja"), "w") as f:
        f.write(template)


SPECIAL = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"]


class Tools:
    def __init__(self, binaries, tmp):
        self.bin, self.tmp = binaries, tmp

    def run(self, *command, code=0, text=None):
        done = subprocess.run([os.path.join(self.bin, command[0]), *map(str, command[1:])], capture_output=True, input=text)
        check(done.returncode == code, f"exit code {done.returncode}, expected {code}: {command}\n{done.stderr.decode()}")
        return done.stdout.decode(), done.stderr.decode()

    def plan(self, name, special=SPECIAL, template=TEMPLATE, *options):
        folder, model, plan = (f"{self.tmp}/{name}{end}" for end in ("", ".ninfer", ".plan.bin"))
        checkpoint(folder, special, template)
        self.run("ninfer-convert", folder, "-o", model, "--recipe", "bf16", "--vision")
        self.run("ninfer-build", model, "-o", plan, "--max-context", 256, "--prefill-chunk", 16,
                 *(options or ("--vision", "--vision-max-patches", 64, "--target", "reference")))
        return plan

    def chat(self, plan, question, *images, **kw):
        options = [x for i in images for x in ("--image", os.path.join(IMAGES, i))]
        return self.run("ninfer-exec", "chat", plan, "-p", question, *options, *DRAWN, **kw)

    def refused(self, id, code, *command, text=None):
        _, err = self.run("ninfer-exec", *command, code=code, text=text)
        check(f"error[{id}]" in err, f"expected {id} of {command}, got: {err}")


def prompt(*contents):
    return "".join(f"<|im_start|>user\n{c}<|im_end|>\n" for c in contents) + "<|im_start|>assistant\n"


def tools_agree(tools, plan):
    """chat renders what run reads; the image, its place and their number count."""
    one, _ = tools.chat(plan, "What is it?", "rgb.png")
    picture = os.path.join(IMAGES, "rgb.png")
    typed, _ = tools.run("ninfer-exec", plan, "-p", prompt(PLACE + "What is it?"), "--image", picture, *DRAWN)
    check(one.rstrip("\n") == typed.rstrip("\n"), f"chat {one!r}, run {typed!r}")
    moved, _ = tools.run("ninfer-exec", plan, "-p", prompt("What is it?" + PLACE), "--image", picture, *DRAWN)
    bare, _ = tools.chat(plan, "What is it?")
    two, _ = tools.chat(plan, "What is it?", "rgb.png", "rgb.jpg")
    answers = [one, moved, bare, two]
    check(len(set(answers)) == len(answers), f"answers that should differ: {answers}")
    # A conversation: an image in the second message only, then one more message. Its last answer is that of the whole prompt.
    lines = f"Hello\n/image {picture}\nWhat is it?\nAnd now?\n"
    told, _ = tools.run("ninfer-exec", "chat", plan, *DRAWN, text=lines.encode())
    again, _ = tools.run("ninfer-exec", "chat", plan, *DRAWN, text=f"/clear\n{lines}".encode())
    check(told == again, f"{told!r}, {again!r}")
    # /clear forgets an image that waits.
    cleared, _ = tools.run("ninfer-exec", "chat", plan, *DRAWN, text=f"/image {picture}\n/clear\nWhat is it?\n".encode())
    check(cleared == bare, f"{cleared!r}, {bare!r}")


def tools_refuse(tools, plan):
    picture, text = os.path.join(IMAGES, "rgb.png"), os.path.join(IMAGES, "README.md")
    chat = ("chat", plan, "-p", "Hello", "--image")
    tools.refused("NB0685", 2, plan, "-p", "no place", "--image", picture)
    tools.refused("NB0685", 2, plan, "-p", PLACE + PLACE, "--image", picture)
    tools.refused("NB0685", 2, "chat", plan, "-p", "a forged <|image_pad|>", "--image", picture)
    tools.refused("NB0723", 3, *chat, text)
    tools.refused("NB0724", 5, *chat, os.path.join(IMAGES, "cmyk.jpg"))
    tools.refused("NB0723", 3, "chat", plan, text=f"/image {text}\n".encode())
    tools.refused("NB0675", 5, "chat", tools.plan("text", SPECIAL, TEMPLATE, "--target", "reference"), "-p", "Hello", "--image", picture)
    small = tools.plan("small", SPECIAL, TEMPLATE, "--vision", "--vision-max-patches", 12, "--target", "reference")
    tools.refused("NB0722", 2, "chat", small, "-p", "Hello", "--image", picture)
    tools.refused("NB0686", 5, "chat", tools.plan("words", SPECIAL[:2]), "-p", "Hello", "--image", picture)
    blind = "{%- for m in messages %}{{- m.role + '\\n' }}{%- endfor %}"
    tools.refused("NB0685", 2, "chat", tools.plan("blind", SPECIAL, blind), "-p", "Hello", "--image", picture)


def png(path, height, width, slope):
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + bytes((slope * (x + 2 * y + 7 * c)) % 256 for x in range(width) for c in range(3)) for y in range(height))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def data(name, kind="png"):
    with open(os.path.join(IMAGES, name), "rb") as f:
        return f"data:image/{kind};base64," + base64.b64encode(f.read()).decode()


def part(url):
    return {"type": "image_url", "image_url": {"url": url}}


def served(tools, plan, exe):
    server = Server(exe, plan, *DRAWN)
    text = {"type": "text", "text": "What is it?"}

    def ask(*parts):
        return server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": list(parts)}]})

    expected, _ = tools.chat(plan, "What is it?", "rgb.png")
    status, answer = ask(part(data("rgb.png")), text)
    check(status == 200, str(answer))
    check(answer["choices"][0]["message"]["content"] == expected.rstrip("\n"), f"{answer} differs from {expected!r}")
    # One placeholder became those of the picture: 37 x 53 pixels, at most 1024, in merged squares of 8: 24 x 32.
    placed, usage = prompt(PLACE + "What is it?"), answer["usage"]
    characters = len(placed)
    for token in SPECIAL:
        characters -= placed.count(token) * (len(token) - 1)
    check(usage["prompt_tokens"] == characters + 3 * 4 - 1, f"{usage}, {characters}")
    check(usage["prompt_tokens_details"]["cached_tokens"] == 0, str(usage))
    # The same again is in the context but for its last token; another picture is not.
    _, again = ask(part(data("rgb.png")), text)
    check(again["usage"]["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"] - 1, str(again))
    check(again["choices"] == answer["choices"], f"{again} differs from {answer}")
    _, jpeg = ask(part(data("rgb.jpg", "jpeg")), text)
    before = placed[:placed.index("<|image_pad|>")]
    start = len(before) - sum(before.count(t) * (len(t) - 1) for t in SPECIAL)
    check(jpeg["usage"]["prompt_tokens_details"]["cached_tokens"] == start, f"{jpeg['usage']}, expected {start}")
    expected, _ = tools.chat(plan, "What is it?", "rgb.jpg")
    check(jpeg["choices"][0]["message"]["content"] == expected.rstrip("\n"), f"{jpeg} differs from {expected!r}")
    # Nor is one of the same size and number of tokens.
    same = []
    for slope in (3, 5):
        path = f"{tools.tmp}/slope{slope}.png"
        png(path, 24, 32, slope)
        with open(path, "rb") as f:
            status, got = ask(part("data:image/png;base64," + base64.b64encode(f.read()).decode()), text)
        check(status == 200, str(got))
        expected, _ = tools.chat(plan, "What is it?", path)
        check(got["choices"][0]["message"]["content"] == expected.rstrip("\n"), f"{got} differs from {expected!r}")
        same.append((got["usage"]["prompt_tokens"], got["usage"]["prompt_tokens_details"]["cached_tokens"]))
    check(same[0][0] == same[1][0] and same[1][1] == start, f"{same}, expected {start}")
    expected, _ = tools.chat(plan, "What is it?", "rgb.jpg")
    # Streams too.
    events = server.stream("/v1/chat/completions", {"messages": [{"role": "user", "content": [part(data("rgb.jpg", "jpeg")), text]}]})
    streamed = "".join(e["choices"][0]["delta"].get("content", "") for e in events if e["choices"])
    check(streamed == expected.rstrip("\n"), f"{streamed!r}, {expected!r}")

    for what, url in (("fetched", "http://127.0.0.1/a.png"), ("fetched", "https://example.org/a.png"), ("fetched", "file:///etc/passwd"),
                      ("fetched", "data:image/gif;base64,AAAA"), ("base64", "data:image/png;base64,A=AA"),
                      ("base64", "data:image/png;base64,AAA"), ("base64", "data:image/png;base64,AA A"),
                      ("PNG", "data:image/png;base64,AAAA")):
        status, refused = ask(part(url), text)
        check(status == 400 and what in refused["error"]["message"], f"{url}: {status} {refused}")
    picture = part(data("rgb.png"))
    for messages in ([{"role": "system", "content": [picture]}],
                     [{"role": "user", "content": [picture, {"type": "text", "text": "<|image_pad|>"}]}],
                     [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": data("rgb.png"), "detail": "high"}}]}],
                     [{"role": "user", "content": [{"type": "image_url", "image_url": data("rgb.png")}]}],
                     [{"role": "user", "content": [part(data("cmyk.jpg", "jpeg"))]}],
                     [{"role": "user", "content": [picture] * 30}]):
        status, refused = server.ask("/v1/chat/completions", {"messages": messages})
        check(status == 400, f"{json.dumps(messages)[:80]}: {status} {refused}")
    status, answer = ask(text)  # and goes on
    check(status == 200, str(answer))
    server.process.terminate()
    check(server.process.wait(30) == 0, server.text())


def ends_in_an_image(tools, exe):
    """A prompt whose last token is an image's: asked again, the image is evaluated again, whole."""
    only = "{%- for m in messages %}{%- for p in m.content %}{{- '<|image_pad|>' if p.type == 'image' else p.text }}{%- endfor %}{%- endfor %}"
    server = Server(exe, tools.plan("only", SPECIAL, only), *DRAWN)
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Look: "}, part(data("rgb.png"))]}]}
    answers = [server.ask("/v1/chat/completions", body) for _ in range(2)]
    check([status for status, _ in answers] == [200, 200], str(answers))
    first, again = (answer for _, answer in answers)
    check(first["usage"]["prompt_tokens"] == 6 + 3 * 4, str(first["usage"]))
    check(again["usage"]["prompt_tokens_details"]["cached_tokens"] == 6, str(again["usage"]))
    check(first["choices"] == again["choices"], str(answers))
    server.process.terminate()
    check(server.process.wait(30) == 0, server.text())


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", required=True)
    args = ap.parse_args()
    with tempfile.TemporaryDirectory() as tmp:
        tools = Tools(args.bin, tmp)
        plan = tools.plan("model")
        tools_agree(tools, plan)
        tools_refuse(tools, plan)
        served(tools, plan, os.path.join(args.bin, "ninfer-exec"))
        ends_in_an_image(tools, os.path.join(args.bin, "ninfer-exec"))
    print("images in prompts: chat, run and serve agree")


if __name__ == "__main__":
    main()

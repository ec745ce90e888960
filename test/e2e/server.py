#!/usr/bin/env python3
"""`ninfer-exec serve` through its own sockets. usage: server.py --bin DIR

What an answer must be is what `ninfer-exec` itself says in other commands, and JSON and server-sent events are read by Python's library.
"""
import argparse
import atexit
import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
QUESTIONS = ["What is 38 plus 47?", "Sort 71, 5, 33.", "Tell me about the heron.", "Which is larger, 34 or 81?"]


def check(condition, text):
    if not condition:
        sys.exit("FAILED server: " + text)


class Server:
    def __init__(self, exe, plan, *options):
        atexit.register(lambda: self.process.kill())  # a failed check leaves no server behind
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([exe, "serve", plan, "--port", "0", *options], stderr=self.log)
        deadline = time.time() + 60
        while not (found := re.search(r"at http://127\.0\.0\.1:(\d+)", self.text())):
            check(self.process.poll() is None and time.time() < deadline, "the server does not start: " + self.text())
            time.sleep(0.02)
        self.port = int(found.group(1))

    def text(self):
        self.log.seek(0)
        return self.log.read()

    def open(self, path, body, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        data = None if body is None else body if isinstance(body, (str, bytes)) else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, data, headers or {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def ask(self, path, body=None, headers=None):
        connection, response = self.open(path, body, headers)
        try:
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def chat(self, question, **members):
        status, answer = self.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": question}], **members})
        check(status == 200, f"status {status}: {answer}")
        return answer

    def stream(self, path, body):
        """Events up to [DONE], as JSON."""
        connection, response = self.open(path, {**body, "stream": True})
        check(response.status == 200 and response.getheader("Content-Type") == "text/event-stream", "not a stream of events")
        lines = response.read().decode().split("\n\n")
        connection.close()
        check(lines[-1] == "" and lines[-2] == "data: [DONE]", f"a stream ends with [DONE], not {lines[-2:]}")
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        check(code == 0, f"exit code {code} after a signal: {self.text()}")


def answers(server, expected, keeps_prompt):
    for question, text in expected.items():
        got = server.chat(question)
        check(got["choices"][0]["message"] == {"role": "assistant", "content": text}, f"{question}: {got}")
        check(got["choices"][0]["finish_reason"] == "stop", f"{got}")
        usage = got["usage"]
        check(usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"], f"{usage}")
        events = server.stream("/v1/chat/completions", {"messages": [{"role": "user", "content": question}],
                                                        "stream_options": {"include_usage": True}})
        check(events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}, f"{events[0]}")
        check("".join(e["choices"][0]["delta"].get("content", "") for e in events[:-1]) == text, f"{events}")
        check([e["choices"][0]["finish_reason"] for e in events[:-1]] == [None] * (len(events) - 2) + ["stop"], f"{events}")
        last = events[-1]
        check(last["choices"] == [] and last["usage"]["completion_tokens"] == usage["completion_tokens"], f"{last}")
        # The same prompt again: all of it but the last token was there, unless recurrent states cannot go back.
        kept = usage["prompt_tokens"] - 1 if keeps_prompt else 0
        check(last["usage"]["prompt_tokens_details"]["cached_tokens"] == kept, f"kept {kept}: {last}")
    if keeps_prompt:  # a conversation goes on: neither its prompt nor the answer is evaluated again
        question = next(iter(expected))
        talk = [{"role": "user", "content": question}, {"role": "assistant", "content": expected[question]}]
        before = server.chat(question)["usage"]
        after = server.ask("/v1/chat/completions", {"messages": talk + [{"role": "user", "content": QUESTIONS[1]}]})[1]["usage"]
        cached = after["prompt_tokens_details"]["cached_tokens"]
        check(cached >= before["total_tokens"] - 1, f"{before} then {after}")
    limited = server.chat(QUESTIONS[2], max_tokens=3)
    check(limited["choices"][0]["finish_reason"] == "length" and limited["usage"]["completion_tokens"] == 3, f"{limited}")


def texts_and_members(server):
    plain = server.ask("/v1/completions", {"prompt": "The heron", "max_tokens": 24, "temperature": 0})[1]["choices"][0]["text"]
    check(len(plain) > 4, f"a text is continued, got {plain!r}")
    stop = plain[3:5]
    cut = server.ask("/v1/completions", {"prompt": "The heron", "max_tokens": 24, "stop": [stop]})[1]["choices"][0]
    check(cut["text"] == plain[:plain.index(stop)] and cut["finish_reason"] == "stop", f"{cut}")
    events = server.stream("/v1/completions", {"prompt": "The heron", "max_tokens": 24})
    check("".join(e["choices"][0]["text"] for e in events) == plain, f"{events}")
    draws = [server.ask("/v1/completions", {"prompt": "The heron", "max_tokens": 24, "temperature": 3, "seed": seed})[1]
             ["choices"][0]["text"] for seed in (1, 1, 2)]
    check(draws[0] == draws[1] != draws[2], f"seeds: {draws}")
    parts = server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": [
        {"type": "text", "text": QUESTIONS[0][:7]}, {"type": "text", "text": QUESTIONS[0][7:]}]}], "user": "me", "n": 1})[1]
    check(parts["choices"][0]["message"] == server.chat(QUESTIONS[0])["choices"][0]["message"], f"{parts}")


def refusals(server):
    message = [{"role": "user", "content": "x"}]
    chat, text = "/v1/chat/completions", "/v1/completions"
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]
    for path, body, status, code, words in [
            (chat, "{", 400, "NB0910", "JSON"),
            (chat, "[]", 400, "NB0680", "an object"),
            (chat, {}, 400, "NB0680", "messages: missing"),
            (chat, {"messages": []}, 400, "NB0680", "at least one message"),
            (chat, {"messages": [{"role": "tool", "content": "x"}]}, 400, "NB0680", "messages[0].role"),
            (chat, {"messages": [{"role": "user"}]}, 400, "NB0680", "messages[0]"),
            (chat, {"messages": image}, 400, "NB0680", "messages[0].content[0].image_url.url"),
            (chat, {"messages": message, "chat_template_kwargs": {"messages": 3}}, 400, "NB0680", "'messages' is set by the server"),
            (chat, {"messages": message, "model": "gpt"}, 404, "NB0683", "'gpt'"),
            (chat, {"messages": message, "temperature": "hot"}, 400, "NB0680", "temperature"),
            (chat, {"messages": message, "temperature": -1}, 400, "NB0708", "temp"),
            (chat, {"messages": message, "top_p": 2}, 400, "NB0708", "top"),
            (chat, {"messages": message, "n": 2}, 400, "NB0680", "n: "),
            (chat, {"messages": message, "tools": [{}]}, 400, "NB0680", "tools"),
            (chat, {"messages": message, "logprobs": True}, 400, "NB0680", "logprobs"),
            (chat, {"messages": message, "response_format": {"type": "json_object"}}, 400, "NB0680", "response_format"),
            (chat, {"messages": message, "prompt": "x"}, 400, "NB0680", "'prompt'"),
            (chat, {"messages": message, "stream": 1}, 400, "NB0680", "stream"),
            (chat, {"messages": message, "stream_options": {}}, 200, None, ""),
            (chat, {"messages": message, "stream_options": {"include_usage": True}}, 400, "NB0680", "stream_options"),
            (chat, {"messages": message, "max_tokens": 0}, 400, "NB0680", "max_tokens"),
            (chat, {"messages": message, "max_tokens": 1.5}, 400, "NB0680", "max_tokens"),
            (chat, {"messages": message, "max_tokens": 100000}, 400, "NB0652", "context overflow"),
            (chat, {"messages": message, "stop": [""]}, 400, "NB0680", "stop"),
            (text, {"prompt": ""}, 400, "NB0662", "empty"),
            (text, {"prompt": [0, -1]}, 400, "NB0680", "prompt"),
            (text, {"prompt": [0, 1000000]}, 400, "NB0651", "1000000"),
            (text, '{"prompt":"a","prompt":"b"}', 400, "NB0910", "duplicate"),
            (text, b'{"prompt":"\xff"}', 400, "NB0910", "UTF-8"),
            ("/v1/embeddings", {"input": "x"}, 404, "NB0680", "no such page")]:
        got = server.ask(path, body)
        ok = got[0] == status and (status == 200 or (got[1]["error"]["code"] == code and words in got[1]["error"]["message"]))
        check(ok, f"{path} {body}: expected {status} {code} {words!r}, got {got}")
    got = server.ask(chat, {"messages": message}, {"Content-Type": "text/plain"})
    check(got[0] == 400 and "Content-Type" in got[1]["error"]["message"], f"a body that is not declared as JSON: {got}")
    check(server.ask("/health")[1] == {"status": "ok", "requests": 0}, "nothing waits after refusals")


def raw(server, data):
    """Everything that comes back on one connection, as statuses and the whole text."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        try:
            connection.sendall(data)
        except OSError:
            pass  # refused before all of it was sent
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", answer)], answer.decode(errors="surrogateescape")


def hostile(server):
    """Requests that no client sends by mistake: the server goes on, and answers what it was asked only."""
    page = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
    body = b'{"prompt":"The heron","max_tokens":2}'
    wanted = page + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    for path in (b"/%ff%fe", b"/\xff", b"/x%0aGET%20/%1b[31m"):
        got, text = raw(server, b"GET " + path + b" HTTP/1.1\r\n\r\n")
        check(got == [404] and "NB0680" in text, f"{path}: {got} {text}")
    check(all(c.isprintable() or c == "\n" for c in server.text()) and "GET /x%0aGET%20/%1b[31m 404" in server.text(), "bytes of a path in the log")
    got, text = raw(server, page + b"Content-Type: \xff\r\nContent-Length: 2\r\n\r\n{}")
    check(got == [400] and "Content-Type" in text, f"a Content-Type that is no text: {got} {text}")
    got, text = raw(server, wanted.replace(b"application/json", b"Application/JSON ; charset=utf-8"))
    check(got == [200], f"a Content-Type in other letters: {got} {text}")
    # A web page may send a body of this type to any address. What the library leaves of it, it must not take for a request: its
    # buffer has 4096 bytes, so that the second one begins where the next read does.
    for target in (b"POST /v1/completions", b"GET /health"):
        head = target + b" HTTP/1.1\r\nContent-Type: multipart/form-data\r\nContent-Length: %d\r\n\r\n"
        filler = 4096 - len(head % 9999)
        got, text = raw(server, head % (filler + len(wanted)) + b"a" * filler + wanted)
        check(len(got) == 1 and "text_completion" not in text, f"a request inside a body was answered: {got} {text}")
    spaces = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    got, text = raw(server, page + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + spaces * 66 + b"0\r\n\r\n")
    check(got in ([413], []), f"66 MiB in chunks: {got} {text}")  # none: the connection ended while more came
    bomb = gzip.compress(b" " * (66 << 20))
    got, text = raw(server, page + b"Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb)
    check(got == [413] and "too long" in text, f"66 MiB behind gzip: {got} {text}")
    check(server.ask("/health")[1] == {"status": "ok", "requests": 0}, "nothing waits after hostile requests")


def trickle(server):
    """A client that sends its request a byte at a time does not hold up the end."""
    stop = threading.Event()
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(b"GET /health HTTP/1.1\r\n")

    def send():
        while not stop.wait(0.2):
            try:
                connection.sendall(b"X")
            except OSError:
                return
    thread = threading.Thread(target=send)
    thread.start()
    try:
        server.end()
    finally:
        stop.set()
        thread.join()
        connection.close()


def together(server, expected):
    """Requests at the same time do not mix."""
    wrong = []

    def one(question):
        for _ in range(5):
            text = server.chat(question)["choices"][0]["message"]["content"]
            if text != expected[question]:
                wrong.append((question, text))
    threads = [threading.Thread(target=one, args=(question,)) for question in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not wrong, f"{wrong}")


def busy(exe, plan, expected):
    """Answers that never end by themselves, by the slow target: a full queue, a reader that goes away, a signal."""
    server = Server(exe, plan, "--target", "reference", "--ignore-eos", "--queue", "0", "--alias", "slow", "--stats")
    check(server.ask("/v1/models")[1]["data"][0]["id"] == "slow", "alias")
    endless = {"model": "slow", "messages": [{"role": "user", "content": "x"}], "stream": True}

    def begin():
        connection, response = server.open("/v1/chat/completions", endless)
        check(response.status == 200 and response.read(1), "a stream begins")
        return connection, response
    connection, response = begin()
    status, answer = server.ask("/v1/chat/completions", {"messages": endless["messages"]})
    check(status == 503 and answer["error"]["code"] == "NB0682", f"a full queue: {status} {answer}")
    response.close()
    connection.close()

    def idle(what):
        deadline = time.time() + 30
        while server.ask("/health")[1]["requests"] and time.time() < deadline:
            time.sleep(0.02)
        check(server.ask("/health")[1]["requests"] == 0, what)
    idle("the answer goes on after its reader has left")

    def leave(body):
        """Asks, and goes away once the model is at it."""
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        while not server.ask("/health")[1]["requests"]:
            time.sleep(0.01)
        connection.close()
    leave({"prompt": "x"})  # without a stream nothing is written before the end
    idle("an answer in one piece goes on after its reader has left")
    for first in range(5):  # most of the time these take is that of their prompts, in calls of 16 tokens
        leave({"prompt": [first + 1] + [9] * 479, "max_tokens": 1, "stream": first % 2 == 1})
        idle("a prompt is evaluated after its reader has left")
    question = QUESTIONS[0]
    text = server.chat(question, max_tokens=4)["choices"][0]["message"]["content"]
    check(text and expected[question].startswith(text), f"after a reader that left: {text!r}")
    connection, response = begin()
    server.process.send_signal(signal.SIGTERM)
    rest = response.read().decode()
    check('"NB0653"' in rest and rest.endswith("data: [DONE]\n\n"), f"a stream that a signal ends: {rest[-300:]}")
    check(server.process.wait(timeout=60) == 0, "exit code after SIGTERM")
    decoded = int(re.search(r"decode +(\d+) tokens", server.text()).group(1))
    # One answer of this kind fills the context of 512 positions.
    check(decoded < 500, f"{decoded} tokens decoded: answers went on without a reader")
    prompts = int(re.search(r"prefill +(\d+) tokens", server.text()).group(1))
    check(prompts < 4 * 480, f"{prompts} tokens of five prompts of 480 evaluated for readers that had left")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--bin", required=True)
    args = ap.parse_args()
    exe = os.path.join(args.bin, "ninfer-exec")
    with tempfile.TemporaryDirectory() as tmp:
        def make(name, folder, *options):
            model, plan = os.path.join(tmp, name + ".ninfer"), os.path.join(tmp, name + ".plan.bin")
            subprocess.run([os.path.join(args.bin, "ninfer-convert"), os.path.join(ROOT, "examples", folder, "checkpoint"), "-o", model,
                            "--recipe", "w8"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            subprocess.run([os.path.join(args.bin, "ninfer-build"), model, "-o", plan, "--target", "cpu:native", *options], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return plan

        def spoken(plan, questions):
            return {q: subprocess.run([exe, "chat", plan, "-p", q, "--spec", "off"], check=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL).stdout.decode()[:-1] for q in questions}
        plan = make("demo", "demo", "--target", "reference")
        expected = spoken(plan, QUESTIONS)
        server = Server(exe, plan)
        answers(server, expected, True)
        texts_and_members(server)
        refusals(server)
        hostile(server)
        together(server, expected)
        everywhere = subprocess.run([exe, "serve", plan, "--host", "", "--port", "0"], stderr=subprocess.PIPE, timeout=60)
        check(everywhere.returncode == 2 and b"--host" in everywhere.stderr, f"an empty address: {everywhere}")
        taken = subprocess.run([exe, "serve", plan, "--port", str(server.port)], stderr=subprocess.PIPE, timeout=60)
        check(taken.returncode == 1 and b"NB0681" in taken.stderr, f"a port that is taken: {taken}")
        idle = socket.create_connection(("127.0.0.1", server.port))  # a connection that says nothing does not hold up the end
        server.end(signal.SIGINT)
        idle.close()
        trickle(Server(exe, plan))
        busy(exe, make("slow", "demo", "--target", "reference", "--prefill-chunk", "16"), expected)
        hybrid = make("hybrid", "hybrid-demo", "--spec", "mtp", "--draft-tokens", "3")
        expected = spoken(hybrid, QUESTIONS[:1])
        server = Server(exe, hybrid)
        answers(server, expected, False)
        server.end()


if __name__ == "__main__":
    main()

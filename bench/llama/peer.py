#!/usr/bin/env python3
"""One process of the peer: quantizes a GGUF, or measures one model and prints JSON. Uses the C API of llama-cpp-python.

usage: peer.py quantize SOURCE OUT FTYPE
       peer.py bench MODEL THREADS PROMPTS GENERATED     (PROMPTS: comma-separated row counts of one batch, "": start only)
       peer.py contexts MODEL THREADS DEPTHS GENERATED FLASH    (DEPTHS: rising; FLASH: on or off) decode after so many tokens
"""
import ctypes
import json
import os
import resource
import sys
import time

START = time.perf_counter()
import llama_cpp as L  # noqa: E402  (loading the library is part of the start-up)


@L.llama_log_callback
def quiet(level, text, user):
    pass


def quantize(source, out, ftype):
    p = L.llama_model_quantize_default_params()
    p.ftype, p.pure, p.nthread, p.allow_requantize = int(ftype), True, 2, True
    if L.llama_model_quantize(source.encode(), out.encode(), ctypes.byref(p)) != 0:
        sys.exit(f"quantize: {source} to type {ftype} failed")


def bench(path, threads, prompts, generated):
    begin = time.perf_counter()
    model = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
    loaded = time.perf_counter()
    p = L.llama_context_default_params()
    p.n_ctx, p.n_batch, p.n_ubatch, p.n_threads, p.n_threads_batch = 1024, 512, 512, threads, threads
    context = L.llama_init_from_model(model, p)
    memory = L.llama_get_memory(context)
    vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))

    def decode(tokens):
        array = (L.llama_token * len(tokens))(*tokens)
        if L.llama_decode(context, L.llama_batch_get_one(array, len(tokens))) != 0:
            sys.exit("llama_decode failed")
        L.llama_synchronize(context)

    def clear():
        L.llama_memory_clear(memory, True)

    tokens = [(i * 3701 + 11) % vocab for i in range(max(prompts + [generated, 1]))]
    decode(tokens[:1])
    out = {"load s": loaded - begin, "first token s": time.perf_counter() - begin}
    clear()
    start = time.perf_counter()
    decode(tokens[:1])
    out["start s"] = out["first token s"] - (time.perf_counter() - start)  # without the work itself
    if not prompts:
        return print(json.dumps(out))
    for rows in prompts:
        clear()
        decode(tokens[:rows])  # warm
        clear()
        start = time.perf_counter()
        decode(tokens[:rows])
        out[f"pp{rows}"] = rows / (time.perf_counter() - start)
    clear()
    decode(tokens[:1])
    clear()
    start = time.perf_counter()
    for i in range(generated):
        decode(tokens[i:i + 1])
    out[f"tg{generated}"] = generated / (time.perf_counter() - start)
    out["rss MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(out))


def contexts(path, threads, depths, generated, flash):
    """Decode speed behind each depth. The context is filled once, by every CPU: that is not measured."""
    model = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
    p = L.llama_context_default_params()
    p.n_ctx, p.n_batch, p.n_ubatch, p.n_threads, p.n_threads_batch = depths[-1] + generated + 8, 512, 512, threads, os.cpu_count()
    p.flash_attn_type = L.LLAMA_FLASH_ATTN_TYPE_ENABLED if flash == "on" else L.LLAMA_FLASH_ATTN_TYPE_DISABLED
    context = L.llama_init_from_model(model, p)
    memory = L.llama_get_memory(context)
    vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))

    def decode(first, count):
        array = (L.llama_token * count)(*[(i * 3701 + 11) % vocab for i in range(first, first + count)])
        if L.llama_decode(context, L.llama_batch_get_one(array, count)) != 0:
            sys.exit("llama_decode failed")
        L.llama_synchronize(context)

    out, filled = {}, 0
    for depth in depths:
        while filled < depth:
            count = min(512, depth - filled)
            decode(filled, count)
            filled += count
        decode(depth, 1)  # warm
        start = time.perf_counter()
        for i in range(generated):
            decode(depth + 1 + i, 1)
        out[f"tg{generated} @ d{depth}"] = generated / (time.perf_counter() - start)
        if not L.llama_memory_seq_rm(memory, 0, depth, -1):
            sys.exit("llama_memory_seq_rm failed")
    print(json.dumps(out))


def main():
    L.llama_backend_init()
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    if sys.argv[1] == "quantize":
        quantize(*sys.argv[2:5])
    elif sys.argv[1] == "contexts":
        contexts(sys.argv[2], int(sys.argv[3]), [int(n) for n in sys.argv[4].split(",")], int(sys.argv[5]), sys.argv[6])
    else:
        bench(sys.argv[2], int(sys.argv[3]), [int(n) for n in sys.argv[4].split(",") if n], int(sys.argv[5]))


if __name__ == "__main__":
    main()

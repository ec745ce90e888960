#!/usr/bin/env python3
"""Writes test/vectors/vision: what Hugging Face transformers and Pillow make of images and grids.

Needs torch, transformers >= 5 with models/qwen3_5, Pillow and numpy. usage: vision_vectors.py [--out DIR]
  vectors.json
    places      per grid, merge and table side: positions, indices, weights of every patch (vision_utils, its casts to
                float32 lifted to float64)
    sequences   spans of text (a number) and media (a grid in patches): positions of the three axes and rope_delta
                (Qwen3_5Model.get_rope_index)
    sizes       [height, width, patch, merge, min, max] and what smart_resize makes of it, null where it refuses
    files       image files beside it: size, and base64 of the pixels that Pillow's convert("RGB") gives (16-bit: by
                construction, the upper bytes)
    patches     a file, a processor config: the grid, and base64 of the levels (0..255) of every element of pixel_values of
                Qwen2VLImageProcessorPil, with how far torch's antialiased bicubic (the torchvision backend) is from them
"""
import argparse
import base64
import functools
import io
import json
import os
import struct
import sys
import types
import zlib

import numpy as np
import torch
from PIL import Image
from transformers import vision_utils
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil, smart_resize
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5Model

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hybrid_checkpoints import Lifted  # noqa: E402

b64 = lambda data: base64.b64encode(bytes(data)).decode()


def places():
    out = []
    for grid, merge, side in [((2, 2), 2, 48), ((1, 1), 1, 3), ((1, 7), 1, 4), ((6, 4), 2, 7), ((4, 10), 2, 48), ((9, 6), 3, 5)]:
        thw = torch.tensor([[1, *grid]])
        kept, vision_utils.torch = vision_utils.torch, Lifted()
        try:
            indices, weights = vision_utils.get_vision_interpolation_indices_and_weights(
                thw, side, mode="bilinear", align_corners=True, spatial_merge_size=merge)
        finally:
            vision_utils.torch = kept
        assert weights.dtype == torch.float64
        positions = vision_utils.get_vision_position_ids(thw, merge)
        out.append(dict(grid=grid, merge=merge, side=side, positions=positions.flatten().tolist(),
                        indices=indices.flatten().tolist(), weights=weights.flatten().tolist()))
    return out


def sequences():
    merge, out = 2, []
    fake = types.SimpleNamespace(config=types.SimpleNamespace(vision_config=types.SimpleNamespace(spatial_merge_size=merge)),
                                 get_vision_position_ids=functools.partial(Qwen3_5Model.get_vision_position_ids, None))
    for spans in [[5], [(4, 6)], [3, (4, 6), 2], [1, (8, 2), (2, 2), 4, (2, 10)], [2, (28, 28), 3]]:
        kinds, grids = [], []
        for span in spans:
            if isinstance(span, int):
                kinds += [0] * span
                continue
            # Two spans of media in a row: video frames are told apart by their kind changing, as with timestamps between them.
            kind = 2 if kinds and kinds[-1] == 1 else 1
            kinds += [kind] * (span[0] * span[1] // merge ** 2)
            grids.append((kind, [1, *span]))
        of = lambda k: torch.tensor([g for kind, g in grids if kind == k]) if any(kind == k for kind, _ in grids) else None
        ids = torch.zeros(1, len(kinds), dtype=torch.long)
        positions, delta = Qwen3_5Model.get_rope_index(fake, ids, torch.tensor([kinds]), of(1), of(2))
        out.append(dict(merge=merge, spans=spans, positions=positions[:, 0].T.flatten().tolist(), rope_delta=int(delta[0])))
    return out


def sizes():
    out, rng = [], np.random.default_rng(3)
    cases = [(448, 448, 16, 2, 65536, 16777216), (1, 200, 16, 2, 65536, 16777216), (1, 201, 16, 2, 65536, 16777216),
             (30, 5000, 16, 2, 65536, 16777216), (47, 48, 16, 2, 1024, 2048), (16, 16, 16, 2, 1, 1 << 20), (8, 8, 16, 2, 1, 1 << 20),
             (80, 48, 16, 2, 1, 1 << 20), (112, 144, 16, 2, 1, 1 << 20), (4000, 3000, 16, 2, 65536, 1048576)]
    cases += [(int(h), int(w), 4, 2, 512, 8192) for h, w in rng.integers(1, 400, (60, 2))]
    for h, w, patch, merge, least, most in cases:
        try:
            result = list(smart_resize(h, w, patch * merge, least, most))
        except ValueError:
            result = None
        out.append(dict(case=[h, w, patch, merge, least, most], size=result))
    return out


def png16(pixels, color):
    """A 16-bit PNG of big-endian words [height][width][channels]."""
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 16, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def picture(height, width, channels, seed):
    """Waves with an edge: smooth enough to be small, sharp enough to ring."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 90 * np.sin(x / (3 + c + seed) + c) * np.cos(y / (5 + c)) + 35 * ((x + 2 * y) // 11 % 2) for c in range(channels)]
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def files(out):
    made = {}

    def save(name, image, **options):
        data = io.BytesIO()
        image.save(data, name.rsplit(".")[-1].replace("jpg", "jpeg"), **options)
        with open(os.path.join(out, name), "wb") as f:
            f.write(data.getvalue())
        rgb = Image.open(io.BytesIO(data.getvalue())).convert("RGB")
        made[name] = dict(file=name, size=[rgb.height, rgb.width], pixels=b64(rgb.tobytes()))

    rgb = Image.fromarray(picture(37, 53, 3, 1))
    save("rgb.png", rgb)
    save("gray.png", Image.fromarray(picture(9, 12, 1, 2)[:, :, 0]))
    save("bits.png", Image.fromarray(picture(9, 13, 1, 2)[:, :, 0]).convert("1"))
    save("palette.png", rgb.resize((20, 14)).quantize(16))
    save("rgba.png", Image.fromarray(picture(10, 11, 4, 3)))
    save("gray-alpha.png", Image.fromarray(picture(7, 8, 2, 3)))
    save("rgb.jpg", Image.fromarray(picture(40, 64, 3, 4)), quality=90)
    save("subsampled.jpg", Image.fromarray(picture(33, 21, 3, 5)), quality=75, subsampling=2)
    save("progressive.jpg", Image.fromarray(picture(24, 24, 3, 5)), quality=80, progressive=True)
    save("gray.jpg", Image.fromarray(picture(17, 16, 1, 2)[:, :, 0]), quality=90)
    data = io.BytesIO()
    Image.fromarray(picture(8, 8, 3, 1)).convert("CMYK").save(data, "jpeg")
    with open(os.path.join(out, "cmyk.jpg"), "wb") as f:
        f.write(data.getvalue())
    for name, channels, color in (("rgb16.png", 3, 2), ("gray16.png", 1, 0)):
        words = np.random.default_rng(channels).integers(0, 65536, (5, 6, channels), dtype=np.uint16)
        with open(os.path.join(out, name), "wb") as f:
            f.write(png16(words, color))
        high = np.broadcast_to((words >> 8).astype(np.uint8), (5, 6, 3))
        made[name] = dict(file=name, size=[5, 6], pixels=b64(np.ascontiguousarray(high).tobytes()))
    return list(made.values())


def patches(out):
    made = []
    for file, config in [("rgb.png", dict(patch_size=4, merge_size=2, size=dict(shortest_edge=256, longest_edge=1024))),
                         ("rgb.png", dict(patch_size=4, merge_size=1, size=dict(shortest_edge=4096, longest_edge=8192))),
                         ("rgb.jpg", dict(patch_size=8, merge_size=2, size=dict(shortest_edge=256, longest_edge=65536)))]:
        config = dict(config, temporal_patch_size=2, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        image = Image.open(os.path.join(out, file)).convert("RGB")
        done = Qwen2VLImageProcessorPil(**config)(images=[image], return_tensors="np")
        _, rows, columns = (int(v) for v in done["image_grid_thw"][0])
        levels = (np.asarray(done["pixel_values"], np.float64) * 0.5 + 0.5) * 255
        assert np.abs(levels - np.rint(levels)).max() < 1e-3
        size = (rows * config["patch_size"], columns * config["patch_size"])
        tensor = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)[None].float()
        other = torch.nn.functional.interpolate(tensor, size=size, mode="bicubic", antialias=True).clamp(0, 255).round()
        pil = np.asarray(image.resize((size[1], size[0]), Image.Resampling.BICUBIC)).astype(np.float64)
        apart = np.abs(other[0].permute(1, 2, 0).numpy() - pil)
        made.append(dict(file=file, config=config, grid=[rows, columns], levels=b64(np.rint(levels).astype(np.uint8).tobytes()),
                         torch_levels_apart=float(apart.max()), torch_share_apart=float((apart > 0).mean())))
        print(file, config["size"], "grid", (rows, columns), "torch apart", apart.max(), "share", (apart > 0).mean())
    return made


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors", "vision"))
    out = ap.parse_args().out
    os.makedirs(out, exist_ok=True)
    members = dict(places=places(), sequences=sequences(), sizes=sizes(), files=files(out), patches=patches(out))
    with open(os.path.join(out, "vectors.json"), "w") as f:
        f.write("{\n" + ",\n".join('"%s": [\n%s\n]' % (k, ",\n".join(json.dumps(c) for c in v)) for k, v in members.items()) + "\n}\n")


if __name__ == "__main__":
    main()

"""The vision tower of a Qwen3.5 checkpoint in plain Python: float64, or with the result of every operator rounded to BF16, which is
the yardstick of targets that store activations so. Reads the safetensors file itself; shares no code with what it checks.
usage: vision_forward.py FOLDER    compares the exact run with FOLDER/embeddings.json and prints the errors of the rounded one."""
import array
import base64
import json
import math
import struct
import sys


def to_bf16(x):
    """Nearest BF16, ties to even; x is rounded to float32 before, which moves no more than a tie."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


class Tower:
    def __init__(self, folder):
        self.config = json.load(open(f"{folder}/config.json"))["vision_config"]
        with open(f"{folder}/model.safetensors", "rb") as f:
            data = f.read()
        size = struct.unpack_from("<Q", data)[0]
        self.header, self.data = json.loads(data[8:8 + size]), data[8 + size:]
        self.h, self.heads = self.config["hidden_size"], self.config["num_heads"]
        self.merge, self.side = self.config["spatial_merge_size"], math.isqrt(self.config["num_position_embeddings"])

    def tensor(self, name):
        entry = self.header[f"model.visual.{name}"]
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "BF16", entry
        return [struct.unpack("<f", b"\0\0" + self.data[i:i + 2])[0] for i in range(begin, end, 2)]

    def forward(self, patches, rows, columns, rounded):
        """`patches` in the order of the merged squares. Returns the embeddings, one list per square."""
        r = to_bf16 if rounded else lambda x: x
        each = lambda f, *lists: [r(f(*values)) for values in zip(*lists)]  # one operator on one row

        def linear(x, name, residual=None):
            weight, bias = self.tensor(name + ".weight"), self.tensor(name + ".bias")
            width = len(x[0])
            assert len(weight) == width * len(bias), name
            out = []
            for i, row in enumerate(x):
                y = [r(sum(map(lambda a, b: a * b, row, weight[n * width:(n + 1) * width]))) for n in range(len(bias))]
                if residual:
                    y = each(lambda a, b: a + b, y, residual[i])
                out.append(each(lambda a, b: a + b, y, bias))
            return out

        def layer_norm(x, name):
            weight, bias = self.tensor(name + ".weight"), self.tensor(name + ".bias")
            out = []
            for row in x:
                mean = sum(row) / len(row)
                scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in row) / len(row) + 1e-6)
                out.append(each(lambda v, w, b: (v - mean) * scale * w + b, row, weight, bias))
            return out

        places = []
        m = self.merge
        for square in range(rows * columns // (m * m)):
            for inside in range(m * m):
                places.append((square // (columns // m) * m + inside // m, square % (columns // m) * m + inside % m))
        table, h = self.tensor("pos_embed.weight"), self.h

        def corners(at, of):
            place = at * (self.side - 1) / (of - 1) if of > 1 else 0.0
            low = min(int(place), self.side - 1)
            high = min(low + 1, self.side - 1)
            return (low, 1 - (place - low)), (high, place - low)

        position = []
        for row, column in places:
            taps = [(a * self.side + b, r(u * v)) for a, u in corners(row, rows) for b, v in corners(column, columns)]
            position.append([r(sum(w * table[t * h + i] for t, w in taps)) for i in range(h)])
        x = linear([[r(v) for v in patch] for patch in patches], "patch_embed.proj", position)
        dim = h // self.heads
        pairs = dim // 4
        theta = self.config["rope_parameters"]["rope_theta"]

        def rope(x):
            out = []
            for row, place in zip(x, places):
                y = [0.0] * h
                for head in range(self.heads):
                    for i in range(2 * pairs):
                        a, b = head * dim + i, head * dim + i + 2 * pairs
                        angle = place[i // pairs] * theta ** (-2 * (i % pairs) / (2 * pairs))
                        c, s = math.cos(angle), math.sin(angle)
                        y[a], y[b] = r(row[a] * c - row[b] * s), r(row[b] * c + row[a] * s)
                out.append(y)
            return out

        for layer in range(self.config["depth"]):
            name = f"blocks.{layer}."
            qkv = linear(layer_norm(x, name + "norm1"), name + "attn.qkv")
            q, k, v = (rope([row[:h] for row in qkv]), rope([row[h:2 * h] for row in qkv]), [row[2 * h:] for row in qkv])
            mixed = []
            for query in q:
                y = []
                for head in range(self.heads):
                    part = slice(head * dim, (head + 1) * dim)
                    scores = [sum(a * b for a, b in zip(query[part], key[part])) / math.sqrt(dim) for key in k]
                    weights = [math.exp(s - max(scores)) for s in scores]
                    y += [r(sum(w * value[head * dim + d] for w, value in zip(weights, v)) / sum(weights)) for d in range(dim)]
                mixed.append(y)
            x = linear(mixed, name + "attn.proj", x)
            inner = linear(layer_norm(x, name + "norm2"), name + "mlp.linear_fc1")
            tanh = lambda a: a / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a ** 3)))
            x = linear([each(tanh, row) for row in inner], name + "mlp.linear_fc2", x)
        x = layer_norm(x, "merger.norm")
        merged = [sum(x[i:i + m * m], []) for i in range(0, len(x), m * m)]
        gelu = lambda a: a / 2 * (1 + math.erf(a / math.sqrt(2)))
        return linear([each(gelu, row) for row in linear(merged, "merger.linear_fc1")], "merger.linear_fc2")


def pixels(number, count):
    """Those of image `number` of embeddings.json."""
    return [((7 * i * i + 31 * i + 13 * number) % 256 / 255 - 0.5) / 0.5 for i in range(count)]


def distance(row, exact):
    return max(abs(a - b) for a, b in zip(row, exact)) / math.sqrt(sum(x * x for x in exact) / len(exact))


def main():
    folder = sys.argv[1]
    tower = Tower(folder)
    width = 3 * tower.config["temporal_patch_size"] * tower.config["patch_size"] ** 2
    for n, image in enumerate(json.load(open(f"{folder}/embeddings.json"))["images"]):
        rows, columns = image["grid"]
        values = pixels(n, rows * columns * width)
        patches = [values[i:i + width] for i in range(0, len(values), width)]
        exact = array.array("d", base64.b64decode(image["embeddings_f64"]))
        for rounded in (False, True):
            out = tower.forward(patches, rows, columns, rounded)
            hidden = len(out[0])
            worst = max(distance(row, exact[i * hidden:(i + 1) * hidden]) for i, row in enumerate(out))
            print(f"{rows}x{columns} {'BF16 operators' if rounded else 'exact'}: {worst:.3g}")


if __name__ == "__main__":
    main()

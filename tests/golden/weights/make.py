#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a folder as Hugging Face's repositories are, with headers alone: the data are holes.

usage: make.py FACTS FOLDER [--shards N] [--preset NAME] [--set KEY=JSON] [--drop KEY] [--file NAME]
A line of FACTS is a format, a shape ("-" for none) and a name; {0-31} stands for these numbers.
"""
import argparse
import json
import os
import re

BITS = {"F32": 32, "BF16": 16, "F16": 16, "F8_E4M3": 8, "U8": 8, "I32": 32}


def read_facts(path):
    for line in open(path):
        dtype, shape, name = line.split()
        numbers = re.search(r"\{(\d+)-(\d+)\}", name)
        first, last = map(int, numbers.groups()) if numbers else (0, 0)
        for i in range(first, last + 1):
            sizes = [] if shape == "-" else [int(size) for size in shape.split(",")]
            yield dtype, sizes, name.replace(numbers.group(), str(i)) if numbers else name


def size_of(dtype, sizes):
    bits = BITS[dtype]
    for size in sizes:
        bits *= size
    return bits // 8


def write(path, tensors):
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for dtype, sizes, name in tensors:
        begin, end = end, end + size_of(dtype, sizes)
        header[name] = {"dtype": dtype, "shape": sizes, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("facts")
    parser.add_argument("folder")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--preset")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--drop", action="append", default=[])
    parser.add_argument("--file", default="model.safetensors")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    if args.preset:
        config = json.load(open(args.preset))["model"]
        for text in args.set:
            key, value = text.split("=", 1)
            config[key] = json.loads(value)
        for key in args.drop:
            config.pop(key, None)
        with open(os.path.join(args.folder, "config.json"), "w") as file:
            json.dump(config, file, indent=1)
    tensors = list(read_facts(args.facts))
    if args.shards == 1:
        write(os.path.join(args.folder, args.file), tensors)
        return
    each, weight_map = -(-len(tensors) // args.shards), {}
    for i in range(args.shards):
        name = "model-%05d-of-%05d.safetensors" % (i + 1, args.shards)
        part = tensors[i * each : (i + 1) * each]
        write(os.path.join(args.folder, name), part)
        weight_map.update((tensor[2], name) for tensor in part)
    total = sum(size_of(dtype, sizes) for dtype, sizes, _ in tensors)
    with open(os.path.join(args.folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, file, indent=1)


main()

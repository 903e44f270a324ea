# SPDX-License-Identifier: MIT
"""What the tests share: the build under test, a ledger of their own, stand-ins for live objects."""

import json
import os
import pathlib
import subprocess
import sys
import types

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MODELS = ROOT / "models"
IMPORTS = ROOT / "tests" / "golden" / "import"

sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("MEMPLAN_MODELS", str(MODELS))
os.environ.setdefault("MEMPLAN_LIBRARY", str(ROOT / "build" / "lib" / "libmemplan.so.0"))
os.environ.setdefault("MEMPLAN_BIN", str(ROOT / "build" / "cli" / "memplan"))
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["HF_HUB_OFFLINE"] = "1"

TINY = {
    "model": {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "vocab_size": 256,
    },
    "training": {"sequence_length": 64, "steps": 1},
}


def tiny(**fields):
    """A plan that costs no time, on a card."""
    import memplan

    return memplan.Plan(TINY, **{"gpu": "H100 80GB HBM3", **fields})


def run_command(*words, code=0, **options):
    """The command's standard output."""
    done = subprocess.run(
        [os.environ["MEMPLAN_BIN"], *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        check=False,
        **options,
    )
    codes = code if isinstance(code, tuple) else (code,)
    assert done.returncode in codes, done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def own_ledger(tmp_path, monkeypatch):
    """What became of runs on this machine is no part of a test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "CUDA_MODULE_LOADING",
                 "LOCAL_WORLD_SIZE"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


def history():
    """The records of the ledger, oldest first."""
    return json.loads(run_command("history", "--json"))["records"]


class OutOfMemoryError(RuntimeError):
    """Named as torch's is."""


OOM_TEXT = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.19 GiB of "
    "which 1.11 GiB is free. Including non-PyTorch memory, this process has 78.07 GiB memory in "
    "use. Of the allocated memory 76.44 GiB is allocated by PyTorch, and 1.00 GiB is reserved by "
    "PyTorch but unallocated."
)


class Cuda:
    """torch.cuda of one card."""

    def __init__(self, total=85029027840, name="NVIDIA H100 80GB HBM3", retries=0):
        self.total, self.name, self.retries = total, name, retries
        self.peak = (0, 0)
        self.resets = 0

    def is_available(self):
        return self.total > 0

    def current_device(self):
        return 0

    def get_device_properties(self, _):
        return types.SimpleNamespace(
            name=self.name, total_memory=self.total, major=9, minor=0, multi_processor_count=132
        )

    def reset_peak_memory_stats(self):
        self.resets += 1

    def max_memory_allocated(self):
        return self.peak[0]

    def max_memory_reserved(self):
        return self.peak[1]

    def memory_stats(self):
        return {"num_alloc_retries": self.retries}


@pytest.fixture
def cuda(monkeypatch):
    """A stand-in for torch that has a card."""
    torch = types.ModuleType("torch")
    torch.cuda = Cuda()
    torch.version = types.SimpleNamespace(cuda="13.0", hip=None)
    torch.__version__ = "2.14.1+cu130"
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch.cuda


class Parameter:
    """A parameter: shape, format, whether it trains."""

    def __init__(self, *shape, dtype="torch.bfloat16", requires_grad=True):
        self.shape, self.dtype, self.requires_grad = shape, dtype, requires_grad

    def numel(self):
        count = 1
        for size in self.shape:
            count *= size
        return count

    def element_size(self):
        return {"torch.float32": 4, "torch.uint8": 1, "torch.int8": 1}.get(self.dtype, 2)


class Config:
    """A configuration as transformers has it."""

    def __init__(self, **values):
        self.values = values
        for name, value in values.items():
            setattr(self, name, value)
        self._attn_implementation = "sdpa"

    def to_json_string(self):
        return json.dumps(self.values)


class LlamaForCausalLM:
    """A model: names and parameters, nothing to compute."""

    is_gradient_checkpointing = False

    def __init__(self, weights="torch.bfloat16", **values):
        self.config = Config(**{**TINY["model"], "num_hidden_layers": 2, **values})
        hidden, inner, vocabulary = 64, 128, 256
        self.named = {"model.embed_tokens.weight": Parameter(vocabulary, hidden, dtype=weights)}
        for i in range(2):
            layer = f"model.layers.{i}."
            for name in "qkvo":
                self.named[f"{layer}self_attn.{name}_proj.weight"] = Parameter(
                    hidden, hidden, dtype=weights
                )
            for name in ("gate", "up", "down"):
                self.named[f"{layer}mlp.{name}_proj.weight"] = Parameter(
                    inner, hidden, dtype=weights
                )
            for name in ("input", "post_attention"):
                self.named[f"{layer}{name}_layernorm.weight"] = Parameter(hidden, dtype=weights)
        self.named["model.norm.weight"] = Parameter(hidden, dtype=weights)
        self.named["lm_head.weight"] = Parameter(vocabulary, hidden, dtype=weights)

    def named_parameters(self):
        return self.named.items()

    def named_modules(self):
        for name in self.named:
            yield name.rsplit(".", 1)[0], types.SimpleNamespace(weight=self.named[name])

    def modules(self):
        return [module for _, module in self.named_modules()]


@pytest.fixture
def model():
    """A live model, or so it looks."""
    return LlamaForCausalLM()

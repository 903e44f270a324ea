# SPDX-License-Identifier: MIT
"""Real transformers: its configurations everywhere, live models where torch is installed, too."""

import importlib.util
import json
import sys
import warnings

import memplan
import pytest
from conftest import IMPORTS, MODELS, LlamaForCausalLM, history

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")

# The section "model" of a preset of each family, and what a layer's list must be cut to.
PRESETS = (
    """bert-base-uncased bloom-560m command-r command-r7b deepseek-v2-lite deepseek-v3 falcon-7b
gemma-2-2b gemma-2b gemma-3-1b glm-4-9b gpt-j-6b gpt-neox-20b gpt-oss-20b gpt2 granite-3.1-2b
llama-3.1-8b minitron-4b mistral-7b-v0.3 mixtral-8x7b olmo-1b olmo-2-13b qwen2.5-0.5b
qwen3-0.6b qwen3-30b-a3b smollm3-3b""".split()
)
LAYERS = 2
LISTS = ("layer_types", "no_rope_layers", "mlp_layer_types")


def config_of(preset):
    """The real configuration class, with few layers."""
    values = json.loads((MODELS / f"{preset}.json").read_text())["model"]
    config = transformers.AutoConfig.for_model(**values)
    config.num_hidden_layers = LAYERS
    for name in LISTS:
        if getattr(config, name, None):
            setattr(config, name, getattr(config, name)[:LAYERS])
    return config


def saved(config, folder):
    """As `memplan import` sees a folder of a model."""
    config.save_pretrained(folder)
    return memplan.import_files(folder / "config.json")


@pytest.mark.parametrize("preset", PRESETS)
def test_configurations(preset, tmp_path):
    """The plan of an object with that configuration is the plan of the file."""
    config = config_of(preset)
    model = LlamaForCausalLM()
    model.config = config
    mine = memplan.Plan.from_model(model, sequence_length=128).to_dict()["model"]
    assert mine == saved(config, tmp_path).to_dict()["model"]


def test_text_part_of_a_model_of_pictures(tmp_path):
    """The public configuration that the golden tests have."""
    values = json.loads((IMPORTS / "model-1.json").read_text())
    config = transformers.AutoConfig.for_model(**values)
    model = type("Mistral3ForConditionalGeneration", (LlamaForCausalLM,), {})()
    model.config = config
    plan = memplan.Plan.from_model(model, sequence_length=128)
    assert plan.get("model.model_type") == "mistral" and plan.get("model.hidden_size") == 5120
    assert plan.to_dict()["model"] == saved(config, tmp_path).to_dict()["model"]
    assert any("not counted" in note for note in plan.notes)


@needs_torch
@pytest.mark.parametrize("preset", PRESETS)
def test_live_models(preset):
    """Parameters are counted as the model has them: a check of the whole way to the estimate."""
    import torch

    config = config_of(preset)
    auto = transformers.AutoModelForCausalLM
    if config.model_type in ("bert", "roberta"):
        auto = transformers.AutoModelForMaskedLM
    with torch.device("meta"):
        model = auto.from_config(config)
    plan = memplan.Plan.from_model(model, sequence_length=64)
    answer = memplan.estimate(plan, peaks_only=True, **{"training.steps": 1})
    assert answer.mismatch is None
    assert answer.parameters == sum(p.numel() for p in model.parameters())


def tiny_model():
    config = transformers.AutoConfig.for_model(
        "llama", hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, vocab_size=256,
    )  # fmt: skip
    return transformers.AutoModelForCausalLM.from_config(config)


@needs_torch
def test_peft_model(tmp_path):
    peft = pytest.importorskip("peft")
    for targets in ("all-linear", ["q_proj", "v_proj"]):
        config = peft.LoraConfig(r=4, target_modules=targets, task_type="CAUSAL_LM")
        model = peft.get_peft_model(tiny_model(), config)
        plan = memplan.Plan.from_model(model, sequence_length=64)
        answer = memplan.estimate(plan)
        assert answer.mismatch is None
        trainable, total = model.get_nb_trainable_parameters()
        assert (answer.trainable_parameters, answer.parameters) == (trainable, total)
        if targets != "all-linear":
            model.config.save_pretrained(tmp_path)
            model.save_pretrained(tmp_path)
            files = memplan.import_files(tmp_path / "config.json", tmp_path / "adapter_config.json")
            found = {**files.to_dict()["training"]["lora"], "adapter_dtype": "float32"}
            found["target_modules"].sort()  # peft writes a set in any order
            assert found == plan.to_dict()["training"]["lora"]


@needs_torch
def test_checkpointing_and_frozen_layers():
    model = tiny_model()
    model.gradient_checkpointing_enable({"use_reentrant": True})
    model.model.embed_tokens.weight.requires_grad = False
    plan = memplan.Plan.from_model(model, sequence_length=64)
    assert plan.get("training.activation_checkpointing") == "full"
    assert plan.get("training.use_reentrant") is True
    assert plan.get("training.frozen") == ["model.embed_tokens.*"]
    assert memplan.estimate(plan).mismatch is None


@needs_torch
def test_trainer(tmp_path, caplog):
    """A real Trainer with the real callback; on a machine without a GPU it says so and trains."""
    pytest.importorskip("accelerate")
    import torch
    from memplan.integrations.transformers import MemplanCallback

    args = transformers.TrainingArguments(
        str(tmp_path), per_device_train_batch_size=2, max_steps=2, report_to=[], use_cpu=True,
        save_strategy="no", disable_tqdm=True, gradient_checkpointing=True,
    )  # fmt: skip
    callback = MemplanCallback(sequence_length=16)
    rows = [{"input_ids": [1] * 16, "labels": [1] * 16}] * 8
    model = tiny_model()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = transformers.Trainer(model, args, train_dataset=rows, callbacks=[callback])
        again = memplan.Plan.from_model(trainer, sequence_length=16).to_dict()
        again["model"]["use_cache"] = True  # the Trainer switched it off, which changes no size
        assert callback.plan.to_dict() == again
        (tmp_path / "args.json").write_text(args.to_json_string())
        model.config.save_pretrained(tmp_path)
        files = memplan.import_files(tmp_path / "config.json", tmp_path / "args.json")
        for section in ("framework", "host", "parallelism"):
            assert callback.plan.get(section) == files.get(section)
        for path, value in files.to_dict()["training"].items():
            assert callback.plan.get("training")[path] == value
        trainer.train()
    if not torch.cuda.is_available():
        assert "memplan: no GPU: nothing is checked or recorded" in caplog.messages
        assert history() == []


@needs_torch
@pytest.mark.parametrize("release", [1, 2])
def test_fsdp_plugin(release):
    """accelerate's own plugin is read as its configuration would be."""
    accelerate = pytest.importorskip("accelerate")
    from memplan._live import _fsdp_of

    plugin = accelerate.FullyShardedDataParallelPlugin(
        fsdp_version=release, cpu_offload=True,
        transformer_cls_names_to_wrap=["LlamaDecoderLayer"],
        auto_wrap_policy="transformer_based_wrap",
        **({"sharding_strategy": "SHARD_GRAD_OP"} if release == 1 else
           {"reshard_after_forward": False}),
    )  # fmt: skip
    document = _fsdp_of(type("State", (), {"fsdp_plugin": plugin}))
    plan = memplan.import_texts({"config": tiny_model().config.to_json_string(), "fsdp": document})
    assert plan.get("parallelism.strategy") == f"fsdp{release}"
    assert plan.get("parallelism.cpu_offload") is True
    if release == 1:
        assert plan.get("parallelism.sharding_strategy") == "SHARD_GRAD_OP"
    else:
        assert plan.get("parallelism.reshard_after_forward") is False


@needs_torch
def test_out_of_memory_of_torch():
    import torch

    with pytest.raises(torch.cuda.OutOfMemoryError), memplan.watch("gpt2"):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
    assert [record["reading"]["outcome"] for record in history()] == ["oom"]


@needs_torch
def test_sft_config(tmp_path):
    trl = pytest.importorskip("trl")
    args = trl.SFTConfig(str(tmp_path), max_length=96, use_cpu=True, bf16=False, report_to=[])
    plan = memplan.Plan.from_model(tiny_model(), args)
    assert plan.get("framework.name") == "trl-sft"
    assert plan.get("framework.version") == trl.__version__
    assert plan.get("training.sequence_length") == 96


def test_nothing_of_torch_is_imported():
    if not HAS_TORCH:
        assert "torch" not in sys.modules

# SPDX-License-Identifier: MIT
"""Plans of live objects: what is read where, and what is refused by name."""

import types

import memplan
import pytest
from conftest import LlamaForCausalLM, Parameter
from memplan._frozen import patterns

Plan = memplan.Plan


def test_figures_are_those_of_the_model(model):
    plan = Plan.from_model(model, sequence_length=64)
    answer = memplan.estimate(plan)
    assert plan.live == memplan.Live(115008, 115008, 230016)
    assert (answer.parameters, answer.trainable_parameters) == (115008, 115008)
    assert 0 <= answer["parameter_bytes"] - 230016 < 512 * len(model.named)  # storages, rounded
    assert answer.mismatch is None
    assert repr(plan) == "<memplan.Plan LlamaForCausalLM, 64 tokens>"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_format_of_the_weights(dtype):
    model = LlamaForCausalLM(f"torch.{dtype}", dtype="float64")  # the weights count
    for args in (None, {"per_device_train_batch_size": 1}):
        plan = Plan.from_model(model, args, sequence_length=64)
        assert plan.get("training.parameter_dtype") == dtype


def test_a_format_that_is_not_modelled():
    with pytest.raises(memplan.PlanError, match="float64"):
        memplan.estimate(Plan.from_model(LlamaForCausalLM("torch.float64"), sequence_length=64))


def test_several_formats_are_said(model):
    model.named["model.norm.weight"].dtype = "torch.float32"
    plan = Plan.from_model(model, sequence_length=64)
    assert plan.notes == (
        "weights of several formats: all are taken as torch.bfloat16, some are torch.float32",
    )
    assert plan.get("imported") == list(plan.notes)
    assert any("several formats" in note for note in memplan.estimate(plan).notes)
    model._keep_in_fp32_modules_strict = {"norm"}  # the family's own choice
    assert Plan.from_model(model, sequence_length=64).notes == ()


def test_attention(model):
    model.config._attn_implementation = "flash_attention_2"
    for args in (None, {"per_device_train_batch_size": 1}):
        plan = Plan.from_model(model, args, sequence_length=64)
        assert plan.get("training.attention") == "flash_attention_2"
    model.config._attn_implementation = "paged|sdpa"
    with pytest.raises(memplan.PlanError, match="paged"):
        memplan.estimate(Plan.from_model(model, sequence_length=64))


def test_checkpointing(model):
    model.is_gradient_checkpointing = True
    function = types.SimpleNamespace(keywords={"use_reentrant": True})
    model.modules = lambda: [types.SimpleNamespace(_gradient_checkpointing_func=function)]
    plan = Plan.from_model(model, sequence_length=64)
    assert plan.get("training.activation_checkpointing") == "full"
    assert plan.get("training.use_reentrant") is True
    function.keywords = {"use_reentrant": False}
    assert Plan.from_model(model, sequence_length=64).get("training.use_reentrant") is False
    function.keywords = {}  # torch's own default
    assert Plan.from_model(model, sequence_length=64).get("training.use_reentrant") is True
    args = {"per_device_train_batch_size": 1, "gradient_checkpointing": True}
    assert Plan.from_model(model, args, sequence_length=64).get("training.use_reentrant") is None


def test_frozen_parameters(model):
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "layers.1." in name
    plan = Plan.from_model(model, sequence_length=64)
    assert plan.get("training.frozen") == [
        "model.embed_tokens.*", "model.layers.0.*", "model.norm.*", "lm_head.*"
    ]  # fmt: skip
    answer = memplan.estimate(plan)
    assert answer.mismatch is None and answer.trainable_parameters == plan.live.trainable_parameters


def test_patterns():
    layers = [f"m.layers.{i}.{part}.weight" for i in range(40) for part in ("attn", "mlp")]
    attn = [name for name in layers if "attn" in name]
    mlp = [name for name in layers if "mlp" in name]
    assert patterns(mlp, attn) == ["m.layers.*.attn.*"]
    assert patterns(layers, []) == [] and patterns([], layers) == ["*"]
    with pytest.raises(memplan.PlanError, match="need 20 patterns, expected at most 16"):
        patterns(mlp + attn[:20], attn[20:])


def adapted(model, targets, parameters=True):
    """peft's model around a model."""
    model.peft_config = {
        "default": types.SimpleNamespace(
            to_dict=lambda: {"peft_type": "LORA", "r": 8, "target_modules": set(targets),
                             "lora_alpha": 16, "lora_dropout": 0.0, "bias": "none"}
        )
    }  # fmt: skip
    model.active_adapter = "default"
    model.get_base_model = lambda: model
    for parameter in model.named.values():
        parameter.requires_grad = False
    for name, parameter in list(model.named.items()):
        if any(name.endswith(f"{target}.weight") for target in targets):
            out, inner = parameter.shape
            path = name[: -len(".weight")]
            model.named[f"{path}.lora_A.default.weight"] = Parameter(
                8, inner, dtype="torch.float32"
            )
            model.named[f"{path}.lora_B.default.weight"] = Parameter(out, 8, dtype="torch.float32")
    return model


def test_adapters(model):
    plan = Plan.from_model(adapted(model, {"q_proj", "v_proj"}), sequence_length=64)
    assert plan.get("training.lora.r") == 8
    assert plan.get("training.lora.target_modules") == ["q_proj", "v_proj"]
    assert plan.get("training.lora.adapter_dtype") == "float32"
    assert plan.get("training.frozen") is None
    answer = memplan.estimate(plan)
    assert answer.mismatch is None and answer.trainable_parameters == 4 * 8 * 128


def test_targets_by_name_where_all_of_that_name_have_an_adapter(model):
    class Lora:
        lora_A = {"default": 1}

    names = [f"base_model.model.model.layers.{i}.attn.{p}" for i in range(2) for p in ("q", "v")]
    modules = [(name, Lora()) for name in names]
    model = adapted(model, set())
    model.named_modules = lambda: modules
    plan = Plan.from_model(model, sequence_length=64)
    assert plan.get("training.lora.target_modules") == ["q", "v"]
    modules[-1] = (names[-1], types.SimpleNamespace(weight=1))  # v of the last layer has none
    plan = Plan.from_model(model, sequence_length=64)
    assert plan.get("training.lora.target_modules") == ["model.layers.0.attn.v", "q"]


def test_several_adapters(model):
    model = adapted(model, {"q_proj"})
    model.peft_config["other"] = model.peft_config["default"]
    with pytest.raises(memplan.PlanError, match="several adapters"):
        Plan.from_model(model, sequence_length=64)


def test_other_kinds_of_adapters(model):
    model.peft_config = {"a": types.SimpleNamespace(to_dict=lambda: {"peft_type": "PROMPT_TUNING"})}
    with pytest.raises(memplan.PlanError, match="PROMPT_TUNING"):
        Plan.from_model(model, sequence_length=64)


class Params4bit(Parameter):
    """Named as bitsandbytes' is: two weights a byte, on the card with their true shape beside."""

    def __init__(self, *shape, on_card):
        super().__init__(shape[0] * shape[1] // 2, 1, dtype="torch.uint8", requires_grad=False)
        self.quant_state = types.SimpleNamespace(shape=shape) if on_card else None


@pytest.mark.parametrize("on_card", [False, True])
@pytest.mark.parametrize("is_prepared", [False, True])
def test_weights_in_4_bits(on_card, is_prepared):
    model = LlamaForCausalLM("torch.float32" if is_prepared else "torch.bfloat16", dtype="bfloat16",
                             quantization_config={"quant_method": "bitsandbytes",
                                                  "load_in_4bit": True,
                                                  "bnb_4bit_quant_type": "nf4"})  # fmt: skip
    for name, parameter in list(model.named_parameters()):
        if "_proj" in name:
            model.named[name] = Params4bit(*parameter.shape, on_card=on_card)
    model = adapted(model, set())
    for i in range(2):
        for end, shape in (("A", (8, 64)), ("B", (64, 8))):
            model.named[f"model.layers.{i}.self_attn.q_proj.lora_{end}.default.weight"] = Parameter(
                *shape, dtype="torch.float32"
            )
    model.peft_config["default"].to_dict = lambda: {"peft_type": "LORA", "r": 8,
                                                    "target_modules": ["q_proj"]}  # fmt: skip
    plan = Plan.from_model(model, sequence_length=64)
    assert plan.get("training.parameter_dtype") == "bfloat16"
    assert plan.get("training.prepare_for_kbit", False) is is_prepared
    answer = memplan.estimate(plan)
    assert answer.mismatch is None and answer.parameters == 115008 + 2048


def test_weights_in_8_bits(model):
    model.config.values["quantization_config"] = {
        "quant_method": "bitsandbytes", "load_in_8bit": True
    }  # fmt: skip
    with pytest.raises(memplan.PlanError, match="8 bits are not modelled"):
        memplan.estimate(Plan.from_model(model, sequence_length=64))


def test_heads():
    class LlamaForTokenClassification(LlamaForCausalLM):
        pass

    class LlamaForSequenceClassification(LlamaForCausalLM):
        pass

    with pytest.raises(memplan.PlanError, match="LlamaForTokenClassification is not modelled"):
        Plan.from_model(LlamaForTokenClassification())
    model = LlamaForSequenceClassification(num_labels=5)
    plan = Plan.from_model(model, sequence_length=64)
    assert plan.get("training.loss.name") == "sequence_classification"
    assert plan.get("training.loss.num_labels") == 5


def test_no_model():
    with pytest.raises(memplan.PlanError, match="expected a transformers model"):
        Plan.from_model(types.SimpleNamespace())


def test_a_model_on_several_devices(model):
    model.hf_device_map = {"model": 0, "lm_head": "cpu"}
    with pytest.raises(memplan.PlanError, match="several devices .device_map.*found 0, cpu"):
        Plan.from_model(model)


def wrapped(name, model):
    return type(name, (), {"module": model})()


def test_wrappers(model, cuda, monkeypatch):
    import sys

    for name, text in (("DataParallel", "nn.DataParallel"), ("OptimizedModule", "torch.compile")):
        with pytest.raises(memplan.PlanError, match=text):
            Plan.from_model(wrapped(name, model))
    with pytest.raises(memplan.PlanError, match="give parallelism.strategy") as error:
        Plan.from_model(wrapped("FullyShardedDataParallel", model))
    assert error.value.pointer == "/parallelism/strategy"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    sys.modules["torch"].distributed = types.SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_world_size=lambda: 8
    )
    plan = Plan.from_model(wrapped("DistributedDataParallel", model), sequence_length=64)
    assert plan.get("parallelism.strategy") == "ddp"
    assert plan.get("parallelism.world_size") == 8
    assert plan.get("parallelism.gpus_per_node") == 4


class Arguments:
    """TrainingArguments."""

    def __init__(self, **values):
        self.values = {"per_device_train_batch_size": 4, "max_grad_norm": 0.5, **values}
        self.world_size = values.get("world_size", 1)
        self.fsdp = values.get("fsdp", [])
        self.deepspeed = values.get("deepspeed")
        self._n_gpu = 1

    def to_dict(self):
        return {k: v for k, v in self.values.items() if k != "world_size"}


def test_arguments(model):
    plan = Plan.from_model(
        model, Arguments(bf16=True, optim="sgd", gradient_checkpointing=True), sequence_length=64
    )
    assert plan.get("framework.name") == "transformers-trainer"
    assert plan.get("training.autocast") == "bfloat16"
    assert plan.get("training.optimizer.name") == "sgd"
    assert plan.get("training.activation_checkpointing") == "full"
    assert plan.get("training.gradient_clipping") == 0.5
    assert plan.notes == ()


def test_what_arguments_ask_for_and_is_not_modelled_is_said(model):
    plan = Plan.from_model(model, Arguments(torch_compile=True, group_of=7), sequence_length=64)
    assert any("torch_compile" in note for note in plan.notes)
    assert any("group_of" in note for note in plan.notes)


def trainer(model, args, **state):
    return types.SimpleNamespace(
        model=model,
        args=args,
        train_dataset=None,
        optimizer=None,
        accelerator=types.SimpleNamespace(state=types.SimpleNamespace(**state)),
    )


def test_trainer(model):
    plan = Plan.from_model(trainer(model, Arguments()), sequence_length=64)
    assert plan == Plan.from_model(model, Arguments(), sequence_length=64)
    alone = trainer(model, Arguments())
    alone.args._n_gpu = 4
    with pytest.raises(memplan.PlanError, match="nn.DataParallel over 4 cards"):
        Plan.from_model(alone)
    own = trainer(model, Arguments())
    own.optimizer = object()
    assert "was given an optimizer (object)" in Plan.from_model(own, sequence_length=64).notes[-1]


@pytest.mark.parametrize("release", [1, 2])
def test_fsdp_of_accelerate(model, release):
    plugin = types.SimpleNamespace(
        fsdp_version=release,
        cpu_offload=types.SimpleNamespace(offload_params=True),
        reshard_after_forward=False if release == 2 else None,
        sharding_strategy=types.SimpleNamespace(name="SHARD_GRAD_OP") if release == 1 else None,
        activation_checkpointing=False,
        transformer_cls_names_to_wrap=["LlamaDecoderLayer"],
    )
    made = trainer(model, Arguments(bf16=True, world_size=8), fsdp_plugin=plugin)
    plan = Plan.from_model(made, sequence_length=64)
    assert plan.get("parallelism.strategy") == f"fsdp{release}"
    assert plan.get("parallelism.world_size") == 8
    assert plan.get("parallelism.cpu_offload") is True
    assert plan.get("parallelism.param_dtype") == "bfloat16"
    if release == 2:
        assert plan.get("parallelism.reshard_after_forward") is False
    else:
        assert plan.get("parallelism.sharding_strategy") == "SHARD_GRAD_OP"
    memplan.estimate(plan)


def test_the_state_of_accelerate_counts_without_a_trainer(model, monkeypatch):
    """As the callback sees a run."""
    import sys

    plugin = types.SimpleNamespace(fsdp_version=2, cpu_offload=False)
    state = type("AcceleratorState", (), {"_shared_state": {"x": 1}, "fsdp_plugin": plugin})
    monkeypatch.setitem(
        sys.modules, "accelerate.state", types.SimpleNamespace(AcceleratorState=state)
    )
    args = Arguments(world_size=8)
    assert Plan.from_model(model, args, sequence_length=64).get("parallelism.strategy") == "fsdp2"
    state._shared_state = {}
    assert Plan.from_model(model, args, sequence_length=64).get("parallelism.strategy") == "ddp"


def test_deepspeed(model):
    config = {"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 4,
              "bf16": {"enabled": True}}  # fmt: skip
    plugin = types.SimpleNamespace(deepspeed_config=config)
    made = trainer(model, Arguments(world_size=2), deepspeed_plugin=plugin)
    assert Plan.from_model(made, sequence_length=64).get("parallelism.strategy") == "zero3"
    args = Arguments(world_size=2, deepspeed="somewhere/ds_config.json")
    args.hf_deepspeed_config = types.SimpleNamespace(config=config)
    assert Plan.from_model(model, args, sequence_length=64).get("parallelism.strategy") == "zero3"


def test_card(model, cuda, monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    plan = Plan.from_model(model, sequence_length=64)
    assert plan.get("device.gpu") == "NVIDIA H100 80GB HBM3"
    assert plan.get("device.total_bytes") == cuda.total
    assert plan.get("device.compute_capability") == 9.0
    assert plan.get("device.allocator.conf") == "expandable_segments:True"
    assert plan.get("software.cuda") == "13.0"
    assert memplan.estimate(plan).fits
    other = Plan.from_model(model, sequence_length=64, gpu="A100 80GB SXM")
    assert other.get("device.total_bytes") is None  # the card that is named, not this one
    cuda.name = "A card that is not in the table"
    assert Plan.from_model(model, sequence_length=64).get("device.gpu") is None

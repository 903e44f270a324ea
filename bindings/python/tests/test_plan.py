# SPDX-License-Identifier: MIT
"""Plans: what they are made of, fields, errors, imports."""

import json
import pathlib

import memplan
import pytest
from conftest import IMPORTS, MODELS, ROOT, TINY, run_command, tiny


def test_sources():
    path = MODELS / "gpt2.json"
    plan = memplan.Plan(path)
    assert plan == memplan.Plan(str(path)) == memplan.Plan("gpt2") == memplan.Plan("gpt2.json")
    assert plan == memplan.Plan(path.read_text()) == memplan.Plan(json.loads(path.read_text()))
    assert plan == memplan.Plan(plan) and hash(plan) == hash(memplan.Plan(plan))
    assert repr(plan) == f"<memplan.Plan {path}, 1024 tokens>"


def test_set_leaves_the_plan_alone():
    plan = memplan.Plan(TINY)
    longer = plan.set(sequence_length=128, gpu="H100 80GB HBM3", **{"optimizer.name": "sgd"})
    assert plan.get("training.sequence_length") == 64
    assert longer.get("training.sequence_length") == 128
    assert longer.get("training.optimizer.name") == "sgd"
    assert longer.get("device.gpu") == "H100 80GB HBM3"
    assert longer.get("device.none", 7) == 7
    assert longer.set(**{"training.steps": None}) != longer


def test_save(tmp_path):
    tiny().save(tmp_path / "plan.json")
    told = run_command("--model", tmp_path / "plan.json", "--json", "--no-suggestions")
    assert memplan.estimate(tiny(), suggestions=False).report == json.loads(told)


@pytest.mark.parametrize(
    "source, fields, pointer, text",
    [
        (TINY, {"sequence_length": -5}, "/training/sequence_length", "found the number -5"),
        (TINY, {"gpu": "Weird 9"}, "/device/gpu", "expected a card of the table"),
        (TINY, {"sequence_lenth": 5}, "", "sequence_lenth"),
        ({"model": {"model_type": "llama"}}, {}, "/model/hidden_size", "hidden_size"),
        ({"model": {"model_type": "nothing"}}, {}, "/model/model_type", "nothing"),
        ("{", {}, "", ""),
        ("[1, 2", {}, "", "no such file"),
        ("nowhere/plan.json", {}, "", "no such file"),
        ({"model": {1, 2}}, {}, "", "not JSON"),
    ],
)
def test_errors(source, fields, pointer, text):
    with pytest.raises(memplan.PlanError) as error:
        memplan.estimate(source, **fields)
    assert error.value.pointer == pointer
    assert text in str(error.value)
    assert isinstance(error.value, ValueError)


def test_error_says_where(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text('{\n  "model": {"model_type": "llama",}\n}')
    with pytest.raises(memplan.PlanError) as error:
        memplan.Plan(path)
    assert (error.value.source, error.value.line) == (str(path), 2)
    assert error.value.status == "not well formed"


def test_no_plan():
    with pytest.raises(TypeError, match="a plan cannot be made of int"):
        memplan.Plan(5)


def test_not_modelled():
    with pytest.raises(memplan.PlanError) as error:
        memplan.estimate(TINY, **{"parallelism.tensor_parallel_size": 2})
    assert error.value.status == "not modelled"


FILES = sorted(path.name for path in IMPORTS.iterdir() if path.suffix != ".md")


@pytest.mark.parametrize("name", FILES)
def test_imports_as_the_command(name, tmp_path):
    """Every public configuration of the golden tests."""
    try:
        plan = memplan.import_files(IMPORTS / name)
    except memplan.PlanError as error:
        run_command("import", IMPORTS / name, code=(2, 5))
        assert error.line or error.source
        return
    if "preset" in run_command("import", IMPORTS / name, "-o", tmp_path / "plan.json"):
        return
    told = json.loads((tmp_path / "plan.json").read_text())
    mine = plan.to_dict()
    told.pop("model", None)  # presets that are named by a model's public name are the command's
    mine.pop("model", None)
    assert mine == told


def test_import_of_several(tmp_path):
    config = {**TINY["model"], "architectures": ["LlamaForCausalLM"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "args.json").write_text(
        json.dumps({"model_name_or_path": str(tmp_path), "per_device_train_batch_size": 3})
    )
    plan = memplan.import_files(tmp_path / "args.json", sequence_length=64)
    assert plan.get("training.micro_batch_size") == 3
    assert plan.get("model.hidden_size") == 64
    assert plan == memplan.Plan(tmp_path / "args.json", sequence_length=64)
    memplan.estimate(plan)


def test_import_refuses_by_key():
    with pytest.raises(memplan.PlanError) as error:
        memplan.import_texts({"args.json": '{"learning_rate": 1,\n"optim": "galactic"}'})
    assert (error.value.source, error.value.line) == ("args.json", 2)
    assert "optim" in str(error.value)


def test_nothing_to_import():
    with pytest.raises(TypeError):
        memplan.import_files()


def test_types_are_shipped():
    assert (ROOT / "bindings/python/memplan/py.typed").exists()
    assert isinstance(pathlib.Path(memplan.__file__), pathlib.Path)

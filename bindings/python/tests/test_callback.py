# SPDX-License-Identifier: MIT
"""The Trainer's callback, with stand-ins for the card and, where there is none, transformers."""

import importlib
import sys
import types

import memplan
import pytest
from conftest import LlamaForCausalLM, history, tiny


@pytest.fixture
def callbacks(monkeypatch):
    """memplan.integrations.transformers; its base class is real where it is installed."""
    try:
        importlib.import_module("transformers.trainer_callback")
    except ImportError:
        module = types.ModuleType("transformers.trainer_callback")
        module.TrainerCallback = object
        monkeypatch.setitem(sys.modules, "transformers", types.ModuleType("transformers"))
        monkeypatch.setitem(sys.modules, "transformers.trainer_callback", module)
    return importlib.import_module("memplan.integrations.transformers")


def state(steps=10):
    return types.SimpleNamespace(global_step=steps, is_world_process_zero=True)


ARGUMENTS = {"per_device_train_batch_size": 2, "optim": "adamw_torch", "max_grad_norm": 1.0}


def run(callback, model=None, args=None, steps=10, evaluates=False):
    """What a Trainer calls."""
    args = ARGUMENTS if args is None else args
    callback.on_init_end(args, state(0), None, model=model)
    callback.on_train_begin(args, state(0), None, model=model)
    if evaluates:
        callback.on_prediction_step(args, state(steps), None)
    callback.on_train_end(args, state(steps), None, model=model)


def test_without_a_gpu(callbacks, caplog, model):
    run(callbacks.MemplanCallback(sequence_length=64), model)
    assert caplog.messages == ["memplan: no GPU: nothing is checked or recorded"]
    assert history() == []


def test_fits_and_records(callbacks, cuda, model):
    callback = callbacks.MemplanCallback(sequence_length=64)
    cuda.peak = (40 << 20, 44 << 20)
    run(callback, model)
    assert callback.estimate.fits and callback.estimate.mismatch is None
    assert callback.plan.get("training.micro_batch_size") == 2
    assert callback.plan.get("device.gpu") == "NVIDIA H100 80GB HBM3"
    assert callback.plan.get("software.pytorch") == "2.14.1"
    assert [r["reading"]["metric"] for r in history()] == ["allocated", "reserved"]
    assert len(callback.recorded) == 2


def test_refuses_before_the_first_step(callbacks, cuda, model):
    cuda.total, cuda.name = 300 << 20, "A card that is not in the table"
    callback = callbacks.MemplanCallback(sequence_length=64, **{"device.context_bytes": "299 MiB"})
    with pytest.raises(memplan.DoesNotFit) as refusal:
        run(callback, model)
    assert refusal.value.code == 3 and refusal.value.estimate is callback.estimate
    assert history() == []


def small():
    """A plan that does not fit."""
    return tiny(**{"device.total_bytes": "300 MiB", "device.context_bytes": "299 MiB"})


def test_exit_code(callbacks, cuda):
    with pytest.raises(SystemExit) as end:
        run(callbacks.MemplanCallback(small(), on_refuse="exit"))
    assert end.value.code == 3


def test_warns(callbacks, cuda, caplog):
    run(callbacks.MemplanCallback(small(), on_refuse="warn"))
    assert "memplan: running although it does not fit: needs" in caplog.text


def test_margin(callbacks, cuda):
    plan = memplan.Plan("eagle3", sequence_length=24576)
    with pytest.raises(memplan.InsideMargin) as refusal:
        run(callbacks.MemplanCallback(plan, record=False))
    assert refusal.value.code == 4
    callback = callbacks.MemplanCallback(plan, accept_margin=True, record=False)
    run(callback)
    assert callback.estimate.code == 4


def test_unknown_choice(callbacks):
    with pytest.raises(ValueError, match="expected raise, exit or warn"):
        callbacks.MemplanCallback(on_refuse="shout")


def test_the_ledger_is_asked(callbacks, cuda):
    memplan.record(tiny(), oom=True)
    with pytest.raises(memplan.DoesNotFit, match="out of memory"):
        run(callbacks.MemplanCallback(tiny(sequence_length=128)))
    run(callbacks.MemplanCallback(tiny(sequence_length=128), ledger=False))


def test_without_the_command_the_model_is_asked(callbacks, cuda, caplog, monkeypatch):
    monkeypatch.setenv("MEMPLAN_BIN", "/nowhere/memplan")
    with pytest.raises(memplan.DoesNotFit):
        run(callbacks.MemplanCallback(small()))
    assert "the ledger was not asked" in caplog.text


@pytest.mark.parametrize(
    "fields, args, text",
    [
        ({}, ARGUMENTS, "sequence_length"),
        ({"sequence_length": 64}, {**ARGUMENTS, "optim": "galactic"}, "galactic"),
        ({"sequence_length": 64, "tensor_parallel_size": 2}, ARGUMENTS, "not modelled"),
    ],
)
def test_what_is_not_modelled_runs(callbacks, cuda, caplog, model, fields, args, text):
    run(callbacks.MemplanCallback(**fields), model, args)
    assert "memplan: not checked: " in caplog.text and text in caplog.text


def test_without_the_library_it_runs(callbacks, cuda, caplog, monkeypatch):
    monkeypatch.setenv("MEMPLAN_LIBRARY", "/nowhere/libmemplan.so.0")
    memplan._library.load.cache_clear()
    run(callbacks.MemplanCallback(sequence_length=64), LlamaForCausalLM())
    memplan._library.load.cache_clear()
    assert "not checked: libmemplan is not found" in caplog.text


def test_another_model_than_the_plan_s_is_not_judged(callbacks, cuda, caplog, model):
    model.config.values["intermediate_size"] = 1 << 20
    cuda.total, cuda.name = 300 << 20, "A card that is not in the table"
    run(callbacks.MemplanCallback(sequence_length=64, **{"device.context_bytes": 1}), model)
    assert "not checked: the model has 115008 parameters, the estimate is of" in caplog.text
    assert history() == []


def test_few_steps_are_recorded_as_few(callbacks, cuda):
    cuda.peak = (40 << 20, 44 << 20)
    run(callbacks.MemplanCallback(tiny(**{"training.steps": 3})), steps=1)
    assert {r["demands"]["training.steps"] for r in history()} == {1}


def test_an_evaluation_is_no_reading_of_training(callbacks, cuda):
    cuda.peak = (40 << 20, 44 << 20)
    run(callbacks.MemplanCallback(tiny()), evaluates=True)
    assert [r["reading"].get("outcome") for r in history()] == ["ran"]


def test_no_record(callbacks, cuda):
    cuda.peak = (40 << 20, 44 << 20)
    run(callbacks.MemplanCallback(tiny(), record=False))
    assert history() == []


def test_watch(callbacks, cuda):
    from conftest import OOM_TEXT, OutOfMemoryError

    callback = callbacks.MemplanCallback(tiny())
    with pytest.raises(OutOfMemoryError), callback.watch():
        raise OutOfMemoryError(OOM_TEXT)
    with callback.watch():
        pass  # the callback itself records the peaks
    assert [r["reading"]["outcome"] for r in history()] == ["oom"]
    with pytest.raises(memplan.PlanError, match="no plan to watch"):
        callbacks.MemplanCallback().watch()

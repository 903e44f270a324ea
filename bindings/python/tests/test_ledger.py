# SPDX-License-Identifier: MIT
"""What became of runs: recorded, consulted, watched."""

import os

import memplan
import pytest
from conftest import OOM_TEXT, OutOfMemoryError, history, tiny
from memplan import _command


def test_record_and_consult():
    plan = tiny()
    assert "allocated" in memplan.record(plan, bytes=50 << 20, metric="allocated")
    assert "ran" in memplan.record(plan, ran=True)
    assert [r["reading"].get("metric") for r in history()] == ["allocated", None]
    assert _command.consult(plan).fits


def test_a_failure_refuses_what_asks_for_more():
    memplan.record(tiny(), oom=True)
    answer = _command.consult(tiny(sequence_length=128))
    assert answer.code == 3 and answer.needs_bytes is None
    assert "out of memory" in str(answer)
    assert _command.consult(tiny(sequence_length=128), ledger=False).fits


def test_ledger_of_ones_own(tmp_path):
    memplan.record(tiny(), oom=True, ledger=tmp_path / "own.jsonl")
    assert history() == []
    assert _command.consult(tiny(), ledger=tmp_path / "own.jsonl").code == 3


@pytest.mark.parametrize(
    "wrong, text",
    [
        ({}, "expected what became of the run"),
        ({"oom": True, "ran": True}, "expected what became of the run"),
        ({"bytes": 5, "metric": "weight"}, "--metric"),
    ],
)
def test_wrong_records(wrong, text):
    with pytest.raises(memplan.CommandError, match=text):
        memplan.record(tiny(), **wrong)
    assert history() == []


def test_no_command(monkeypatch):
    monkeypatch.setenv("MEMPLAN_BIN", "/nowhere/memplan")
    with pytest.raises(memplan.CommandError, match="/nowhere/memplan"):
        memplan.record(tiny(), ran=True)
    monkeypatch.delenv("MEMPLAN_BIN")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(_command, "_OWN", _command._OWN / "nowhere")
    assert memplan.command() is None
    with pytest.raises(memplan.CommandError, match="not found"):
        memplan.record(tiny(), ran=True)


def test_plans_that_are_refused():
    with pytest.raises(memplan.PlanError, match="sequence_length"):
        _command.consult({"model": tiny().get("model")})


def test_watch_records_an_out_of_memory_error():
    with pytest.raises(OutOfMemoryError), memplan.watch(tiny()) as run:
        raise OutOfMemoryError(OOM_TEXT)
    (record,) = history()
    assert record["reading"]["outcome"] == "oom"
    assert record["message"]["form"].startswith("pytorch-")
    assert record["id"] in run.recorded[0]


def test_watch_finds_the_reason():
    with pytest.raises(RuntimeError), memplan.watch(tiny()):
        try:
            raise OutOfMemoryError("words that no form of a message has")
        except OutOfMemoryError as error:
            raise RuntimeError("the step failed") from error
    (record,) = history()
    assert record["reading"]["outcome"] == "oom" and "message" not in record


def test_watch_leaves_other_errors_alone(cuda):
    cuda.peak = (5 << 20, 6 << 20)
    with pytest.raises(KeyError), memplan.watch(tiny()):
        raise KeyError("x")
    assert history() == []


def test_watch_records_peaks(cuda):
    with memplan.watch(tiny()):
        cuda.peak = (50 << 20, 60 << 20)
    assert cuda.resets == 1
    assert [(r["reading"]["bytes"], r["reading"]["metric"]) for r in history()] == [
        (50 << 20, "allocated"),
        (60 << 20, "reserved"),
    ]


def test_a_full_card_has_no_reserved_peak(cuda):
    cuda.retries = 1
    with memplan.watch(tiny()):
        cuda.peak = (50 << 20, 60 << 20)
    assert [r["reading"]["metric"] for r in history()] == ["allocated"]


def test_watch_without_a_card():
    with memplan.watch(tiny()) as run:
        pass
    assert run.recorded == [] and history() == []


def test_watch_never_raises_itself(monkeypatch, caplog):
    monkeypatch.setenv("MEMPLAN_BIN", "/nowhere/memplan")
    with pytest.raises(OutOfMemoryError), memplan.watch(tiny()):
        raise OutOfMemoryError(OOM_TEXT)
    assert "nothing recorded: " in caplog.text


def test_the_command_of_the_wheel(monkeypatch):
    seen = []
    monkeypatch.setattr(os, "execve", lambda *words: seen.append(words))
    monkeypatch.setattr("sys.argv", ["memplan", "list"])
    _command.main()
    assert seen[0][:2] == (os.environ["MEMPLAN_BIN"], ["memplan", "list"])

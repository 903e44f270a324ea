# SPDX-License-Identifier: MIT
"""Estimates through Python are those of the command."""

import concurrent.futures
import json
import resource

import memplan
import pytest
from conftest import MODELS, TINY, run_command, tiny

PRESETS = sorted(path.stem for path in MODELS.glob("*.json"))
VERDICTS = (0, 3, 4, 5)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_as_the_command(name):
    path = MODELS / f"{name}.json"
    told = run_command("--model", path, "--json", "--no-suggestions", "--no-ledger", code=VERDICTS)
    assert memplan.estimate(path, suggestions=False).report == json.loads(told)


def test_suggestions_and_options_as_the_command():
    told = run_command("--model", "llama-3.2-1b", "--json", "--seq", 65536, "--risk", "0.05",
                       code=VERDICTS)  # fmt: skip
    answer = memplan.estimate("llama-3.2-1b", risk=0.05, sequence_length=65536)
    assert answer.report == json.loads(told)
    assert answer["suggestions"]


def test_figures():
    answer = memplan.estimate("eagle3", sequence_length=24576, suggestions=False)
    assert (answer.verdict, answer.code, answer.fits) == ("inside_margin", 4, False)
    low, high = answer.needs_bytes
    assert low <= high and answer.live_bytes <= answer.allocated_bytes <= answer.device_bytes
    assert answer.reserved_bytes == answer["peak"]["reserved_bytes"]
    assert 0.9 < answer.survival_probability < 0.99
    assert answer.usable_bytes == answer["capacity"]["usable_bytes"]
    assert any(note.startswith("N001: ") for note in answer.notes)


@pytest.mark.parametrize("name", ["eagle3", "llama-3.1-8b", "gpt-oss-120b"])
@pytest.mark.parametrize("length", [1024, 24576, 131072])
def test_the_line_of_check(name, length):
    told = run_command("check", "--seq", length, name, "--no-ledger", code=VERDICTS).strip()
    verdict, line = str(memplan.estimate(name, suggestions=False, sequence_length=length)).split(
        ": ", 1
    )
    assert told.startswith(verdict) and told.endswith("  " + line)


def test_without_a_card():
    answer = memplan.estimate(TINY)
    assert (answer.verdict, answer.survival_probability) == ("cannot_tell", None)
    assert answer.usable_bytes is None and answer.live_bytes > 0
    assert memplan.check(TINY).code == 5  # no verdict is no refusal


def test_check_refuses():
    assert memplan.check("llama-3.2-1b").fits
    with pytest.raises(memplan.DoesNotFit) as refusal:
        memplan.check("llama-3.1-8b", sequence_length=100000)
    assert refusal.value.code == 3 and refusal.value.estimate.code == 3
    with pytest.raises(memplan.InsideMargin) as refusal:
        memplan.check("eagle3", sequence_length=24576)
    assert refusal.value.code == 4
    assert memplan.check("eagle3", accept_margin=True, sequence_length=24576).code == 4


@pytest.mark.parametrize("stage", ["spec", "timeline", "replay"])
def test_dumps_as_the_command(stage):
    told = run_command("--model", "gpt2", "--dump", stage)
    assert memplan.dump("gpt2", stage).rstrip("\n") == told.rstrip("\n")


def test_unknown_stage():
    with pytest.raises(ValueError, match="expected one of spec"):
        memplan.dump(TINY, "nothing")


@pytest.mark.parametrize(
    "find, words, field, options",
    [
        (memplan.max_value, ["max", "micro_batch_size"], "micro_batch_size", {}),
        (memplan.max_value, ["max", "sequence_length"], "training.sequence_length", {}),
        (
            memplan.max_value,
            ["max", "sequence_length", "--from", 100, "--to", 5000, "--multiple-of", 50],
            "sequence_length",
            {"from_": 100, "to": 5000, "multiple_of": 50},
        ),
        (memplan.min_value, ["min", "total_bytes"], "device.total_bytes", {}),
    ],
)
def test_boundaries_as_the_command(find, words, field, options):
    told = json.loads(run_command(*words, "--model", "gpt2", "--json"))
    found = find("gpt2", field, **options)
    assert found.field == told["field"] and found.verdict == told["verdict"]
    assert (found.value, found.fails) == (told.get("value"), told.get("fails"))
    assert found.multiple_of == told["multiple_of"] and found.allocated == told["allocated"]
    assert found.one_boundary == told["one_boundary"] and found.complete == told["complete"]
    assert found.nothing_tried_above == told.get("nothing_tried_above")
    assert len(found.points) == len(told["points"])
    for mine, other in zip(found.points, told["points"]):
        assert (mine.value, mine.verdict) == (other["value"], other["verdict"])
        if not mine.text:
            assert mine.allocated_bytes == other["allocated_bytes"]
            assert mine.reserved_bytes == other["reserved_bytes"]
            assert mine.usable_bytes == other["usable_bytes"]
            assert list(mine.needs_bytes or []) == other.get("needs_bytes", [])


def test_nothing_fits():
    found = memplan.max_value("llama-3.1-8b", "micro_batch_size", from_=64, to=65)
    assert (found.verdict, found.value) == ("does_not_fit", None)


def test_threads():
    lengths = [64 * i for i in range(1, 17)]
    expected = [memplan.estimate(tiny(sequence_length=n)).report for n in lengths]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda n: memplan.estimate(tiny(sequence_length=n)).report, lengths)
        assert list(found) == expected


def _calls(count):
    plan = tiny()
    for i in range(count):
        plan.set(sequence_length=64 + i % 7)
        plan.validate()
        if i % 10 == 0:
            with pytest.raises(memplan.PlanError):
                plan.set(sequence_length=-1)
        if i % 100 == 0:
            memplan.estimate(plan, peaks_only=True)
            memplan.import_texts({"a": {"learning_rate": 1e-4, "max_length": 64}})


def test_memory_does_not_grow():
    _calls(500)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    _calls(5000)  # of set and validate: 35000 of the library
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 1024  # one leaked plan a call would be 40 MiB

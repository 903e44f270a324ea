#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`memplan review` on requests of the shapes that API servers send: each row of cases.tsv, and what
holds for every answer. Prints TAP. usage: review.py MEMPLAN FOLDER MODELS"""
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

memplan, folder, models = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]), os.path.abspath(sys.argv[3])
VERDICTS = {"fits", "does_not_fit", "inside_margin", "cannot_tell", "invalid_plan", "no_plan", "not_judged"}


def complaints(row, request, done):
    """What is wrong with one answer, as sentences."""
    _, _, allowed, verdict, text = row
    if done.returncode != 0 or not done.stdout.endswith("\n") or done.stdout.count("\n") != 1:
        return [f"exit code {done.returncode}, printed {done.stdout!r}, {done.stderr!r}"]
    answer = json.loads(done.stdout)
    response = answer.pop("response", {})
    said = [response.get("status", {}).get("message", "")] + response.get("warnings", [])
    rules = {
        "kind and version": answer == {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"},
        "uid": response["uid"] == request["request"]["uid"],
        "members": set(response) <= {"uid", "allowed", "status", "warnings", "auditAnnotations"},
        "allowed": response["allowed"] is (allowed == "allowed"),
        "status of a refusal only": ("status" in response) is (allowed == "refused"),
        "code": response.get("status", {"code": 403})["code"] == 403,
        "verdict": response["auditAnnotations"] == {"verdict": verdict} and verdict in VERDICTS,
        "warnings of 120 bytes": all(len(w.encode()) <= 120 for w in response.get("warnings", [])),
        "one line each": all(c.isprintable() for s in said for c in s),
        "prefix": all(s.startswith("memplan: ") for s in said if s),
        "text": any(text in s for s in said) if text else "warnings" not in response and not said[0],
    }
    return [f"{name}: {done.stdout.strip()}" for name, holds in rules.items() if not holds]


def label_request(plan, key, value):
    """A pod that selects its node by one label; "LABEL + RESOURCE" asks for that in place of a GPU."""
    value, _, resource = value.partition(" + ")
    selector = {"nodeSelector": {key: value}} if value else {}
    pod = {**selector, "containers": [{"resources": {"limits": {resource or "nvidia.com/gpu": 1}}}]}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": "CREATE", "object": {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"memplan/plan": json.dumps(plan)}},
            "spec": pod}}}


def check_labels(env, first):
    """Each label of labels.tsv stands for its card; prints a line for each."""
    plan = json.loads(pathlib.Path(models, "llama-3.2-1b.json").read_text())
    plan["device"] = {"gpu": "GTX 1080 Ti"}
    failed = 0
    rows = [line.rstrip("\n").split("\t") for line in open(folder / "labels.tsv") if line[0] != "#"]
    for n, (key, value, card) in enumerate(rows, first):
        done = subprocess.run([memplan, "review", "--timeout", "60"], env=env, text=True, capture_output=True,
                              input=json.dumps(label_request(plan, key, value)))
        warnings = json.loads(done.stdout)["response"].get("warnings", [])
        wanted = f"judged on {card}, as the pods" if card else f"the card {value} is not in the table"
        holds = any(wanted in w for w in warnings)
        print("ok" if holds else "not ok", n, "-", value, "is", card or "not in the table")
        if not holds:
            print("#", done.stdout)
        failed += not holds
    return len(rows), failed


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        plans = pathlib.Path(work, "plans")
        # As kubelet mounts a ConfigMap: names are links into a folder that is replaced at once.
        plans.joinpath("..2026_11_20").mkdir(parents=True)
        plans.joinpath("..data").symlink_to("..2026_11_20")
        plans.joinpath("..2026_11_20", "llama.json").write_text(
            pathlib.Path(models, "llama-3.2-1b.json").read_text())
        plans.joinpath("llama.json").symlink_to("..data/llama.json")
        # What an answer would show if a name of the user's were taken for a path.
        outside = json.loads(pathlib.Path(models, "llama-3.2-1b.json").read_text())
        pathlib.Path(work, "outside.json").write_text(json.dumps(outside))
        pathlib.Path(work, "config.json").write_text(json.dumps(outside["model"]))
        env = dict(os.environ, MEMPLAN_MODELS=models, XDG_STATE_HOME=work, LC_ALL="C")
        rows = [line.rstrip("\n").split("\t") for line in open(folder / "cases.tsv") if line[0] != "#"]
        used = {row[0] for row in rows}
        for n, row in enumerate(rows, 1):
            text = (folder / f"{row[0]}.json").read_text().replace("$FOLDER", work)
            options = ["--timeout", "60"] + shlex.split(row[1].replace("$PLANS", str(plans)))
            done = subprocess.run([memplan, "review", *options], input=text, env=env, cwd=work, text=True,
                                  capture_output=True, timeout=90)
            wrong = complaints(row, json.loads(text), done)
            print("not ok" if wrong else "ok", n, "-", " ".join(row[:2]).strip())
            for line in wrong:
                print("#", line)
            failed += bool(wrong)
        unused = [p.name for p in folder.glob("*.json") if p.stem not in used]
        print("not ok" if unused else "ok", len(rows) + 1, "- every request is in cases.tsv", *unused)
        labels, wrong = check_labels(env, len(rows) + 2)
        print(f"1..{len(rows) + 1 + labels}")
        failed += wrong
    return failed > 0 or bool(unused)


sys.exit(main())

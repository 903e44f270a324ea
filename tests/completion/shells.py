# SPDX-License-Identifier: MIT
"""Command lines completed by real shells, on a terminal. Prints TAP.

usage: shells.py SHELL MEMPLAN SCRIPT MODELS

A line is typed with tabs in it; what the shell then holds is given to a program that writes its
arguments down, so that nothing is read off the screen."""
import json
import os
import pty
import select
import shutil
import stat
import subprocess
import sys
import tempfile
import time

WAIT = 20  # seconds; a shell that is slower than that hangs
PAUSES = (0.2, 1, 5)  # after a tab; the longer ones on a machine that is busy

# What is typed, and the words that it must become.
CASES = [
    ("a command", "memplan chec\t", ["memplan", "check"]),
    ("options of the command", "memplan exec --accept\t", ["memplan", "exec", "--accept-margin"]),
    ("options without a command", "memplan --no-su\t", ["memplan", "--no-suggestions"]),
    ("a preset", "memplan check llama-3.1-405\t", ["memplan", "check", "llama-3.1-405b"]),
    ("a file", "memplan check myp\t", ["memplan", "check", "myplan.json"]),
    ("a file as a value", "memplan replay --svg pict\t", ["memplan", "replay", "--svg", "picture.svg"]),
    ("a card", "memplan check --gpu H100\\ PC\t", ["memplan", "check", "--gpu", "H100 PCIe"]),
    ("a card in quotes", 'memplan check --gpu "H100 PC\t', ["memplan", "check", "--gpu", "H100 PCIe"]),
    ("a value after =", "memplan check --assume=lla\t", ["memplan", "check", "--assume=llama"]),
    ("a field", "memplan max --model x training.ttt\t",
     ["memplan", "max", "--model", "x", "training.ttt_steps"]),
    ("a field by its last name", "memplan min --model x world\t",
     ["memplan", "min", "--model", "x", "world_size"]),
    ("a field that goes on", "memplan sweep --model x world\t4..8",
     ["memplan", "sweep", "--model", "x", "world_size=4..8"]),
    ("a field and its value", "memplan --set training.optimizer.na\tsoph\t",
     ["memplan", "--set", "training.optimizer.name=sophia"]),
    ("a rule", "memplan pack --rule spec\t", ["memplan", "pack", "--rule", "speculators"]),
    ("a stage", "memplan --dump tim\t", ["memplan", "--dump", "timeline"]),
    ("a word", "memplan list optim\t", ["memplan", "list", "optimizers"]),
    ("a card after its word", "memplan list gpus H100\\ PC\t",
     ["memplan", "list", "gpus", "H100 PCIe"]),
    ("a topic", "memplan help swe\t", ["memplan", "help", "sweep"]),
    ("another program", "memplan exec --model x -- mytoo\t",
     ["memplan", "exec", "--model", "x", "--", "mytool"]),
    ("another program's words", "memplan exec --model x mytool --model myp\t",
     ["memplan", "exec", "--model", "x", "mytool", "--model", "myplan.json"]),
]

STARTS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}


def setup(shell, script, folder):
    """The line that makes the script known, as its place of installation would."""
    if shell == "bash":
        return f"bind 'set enable-bracketed-paste off'; source '{script}'"
    if shell == "zsh":
        shutil.copy(script, os.path.join(folder, "functions", "_memplan"))
        return (f"fpath=('{folder}/functions' $fpath); unsetopt BEEP; autoload -Uz compinit; "
                f"compinit -u -D")
    return f"source '{script}'"


def program(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)


class Terminal:
    """A shell at the other end of a terminal."""

    def __init__(self, shell, folder, environment):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(os.path.join(folder, "work"))
            os.execvpe(STARTS[shell][0], STARTS[shell], environment)

    def drain(self, seconds):
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if ready:
            try:
                self.seen += os.read(self.fd, 65536)
            except OSError:  # it is gone
                time.sleep(seconds)

    def send(self, text):
        os.write(self.fd, text.encode())

    def type(self, text, pause):
        """With a pause after each tab: zsh does not complete where more was typed already."""
        for letter in text:
            self.send(letter)
            end = time.monotonic() + pause
            while letter == "\t" and time.monotonic() < end:
                self.drain(max(0.0, end - time.monotonic()))

    def wait_for(self, path):
        """The words that were written down; None: none came."""
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            self.drain(0.02)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    return json.load(file)
        return None


def prepare(folder, memplan):
    for name in ("bin", "work", "functions", "home"):
        os.mkdir(os.path.join(folder, name))
    os.symlink(os.path.realpath(memplan), os.path.join(folder, "bin", "memplan"))
    for name in ("myplan.json", "picture.svg"):
        open(os.path.join(folder, "work", name), "w", encoding="utf-8").close()
    program(os.path.join(folder, "bin", "mytool"), "#!/bin/sh\nexit 0\n")
    program(os.path.join(folder, "bin", "record"), f"""#!{sys.executable}
import json, os, sys
path = os.environ["RECORDED"]
with open(path + ".new", "w", encoding="utf-8") as file:
    json.dump(sys.argv[1:], file)
os.rename(path + ".new", path)
""")


def run(shell, memplan, script, models):
    print(f"1..{len(CASES) + 1}")
    folder = tempfile.mkdtemp()
    recorded = os.path.join(folder, "recorded")
    prepare(folder, memplan)
    environment = {
        "PATH": os.path.join(folder, "bin") + ":" + os.environ["PATH"],
        "HOME": os.path.join(folder, "home"), "TERM": "dumb", "LC_ALL": "C.UTF-8", "PS1": "$ ",
        "MEMPLAN_MODELS": models, "RECORDED": recorded, "COLUMNS": "400",
    }
    # What a sanitizer or a preloaded library wants reaches memplan too.
    environment.update({name: value for name, value in os.environ.items()
                        if name.endswith("SAN_OPTIONS") or name.startswith("LD_")})
    terminal = Terminal(shell, folder, environment)
    terminal.send(setup(shell, os.path.realpath(script), folder) + "; record ready\n")
    got = terminal.wait_for(recorded)
    failed = got != ["ready"]
    print(f"{'not ok' if failed else 'ok'} 1 - {shell} loads the script")
    for number, (name, typed, expected) in enumerate(CASES, 2):
        for pause in [] if failed else PAUSES:
            if os.path.exists(recorded):
                os.remove(recorded)
            terminal.type(typed, pause)
            terminal.send("\x01record \n")
            got = terminal.wait_for(recorded)
            if got == expected:
                break
            terminal.send("\x03")
        else:
            print(f"not ok {number} - {name}: {typed!r} became {got}, expected {expected}")
            continue
        print(f"ok {number} - {name}")
    if os.environ.get("SHOW_TERMINAL"):
        print("\n".join("# " + line for line in terminal.seen.decode(errors="replace").split("\n")))
    terminal.send("\x03\x04")
    os.close(terminal.fd)
    os.waitpid(terminal.pid, 0)
    shutil.rmtree(folder)


def main():
    shell, memplan, script, models = sys.argv[1:]
    if not shutil.which(shell):
        print(f"1..0 # SKIP {shell} is not installed")
        return
    subprocess.run([shell, "-c", "exit 0"], check=True)
    run(shell, memplan, script, models)


main()

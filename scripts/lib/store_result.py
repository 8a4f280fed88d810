# SPDX-License-Identifier: GPL-2.0
"""Writes the result of a benchmark as Documentation/results/*.json has it"""

import datetime
import json
import pathlib
import subprocess

BASE = "Debian linux-source-6.12 6.12.117-1~deb12u1"


def state(*arguments):
    """What scripts/lib/state says"""
    return subprocess.run([pathlib.Path(__file__).with_name("state"), *arguments], check=True,
                          capture_output=True, text=True).stdout.strip()


def store(path, result, measured=None):
    """Adds the date, the base and the state that was measured (that of the built kernel and perf,
    if it is None; nothing, if it is not known)."""
    if measured is None:
        measured = state("--built", "kernel", "perf")
    head = {"title": result["title"], "command": result["command"],
            "date": datetime.date.today().isoformat(), "base": BASE}
    if measured:
        head["state"] = measured
    write(path, {**head, **result})


def write(path, result):
    """Writes each row of a table in a line."""
    tables = [key for key in ("columns", "rows", "counts") if key in result]
    text = json.dumps({**result, **{key: f"@{key}" for key in tables}}, indent=1)
    for key in tables:
        lines = ",\n".join("  " + json.dumps(row) for row in result[key])
        text = text.replace(f'"@{key}"', f"[\n{lines}\n ]")
    pathlib.Path(path).write_text(text + "\n", encoding="utf-8")

# SPDX-License-Identifier: GPL-2.0
"""Writes the result of a benchmark as Documentation/results/*.json has it"""

import datetime
import json
import pathlib
import subprocess

BASE = "Debian linux-source-6.12 6.12.117-1~deb12u1"


def state(classes):
    """As scripts/lib/state says"""
    return subprocess.run([pathlib.Path(__file__).with_name("state"), *classes], check=True,
                          capture_output=True, text=True).stdout.strip()


def store(path, result, classes=("kernel", "perf")):
    """Adds date, base, and the state of the code that was measured; writes a row in a line."""
    head = {"title": result["title"], "command": result["command"],
            "date": datetime.date.today().isoformat(), "base": BASE, "state": state(classes)}
    text = json.dumps({**head, **result, "columns": "@columns", "rows": "@rows"}, indent=1)
    for key in "columns", "rows":
        lines = ",\n".join("  " + json.dumps(row) for row in result[key])
        text = text.replace(f'"@{key}"', f"[\n{lines}\n ]")
    pathlib.Path(path).write_text(text + "\n", encoding="utf-8")

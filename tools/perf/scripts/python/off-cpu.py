# off-cpu.py - show where tasks wait, for how long, and who wakes them up
# SPDX-License-Identifier: GPL-2.0
#
# Usage:
#
#     perf script record off-cpu -- sleep 10
#     perf script report off-cpu
#     perf script report off-cpu --wakers --format folded
#
# A task is off the CPU from the sched_switch that takes it off to the one that puts it
# back. The time belongs to the stack of the first one. The waker is the task, or the
# interrupted task, in which the first sched_waking in between happened.
#
# pylint: disable=missing-module-docstring
# pylint: disable=missing-function-docstring
# pylint: disable=too-many-arguments
# pylint: disable=unused-argument

from __future__ import print_function
import argparse
import os
import sys

for directory in (os.path.dirname(sys.argv[0]),
                  os.environ.get("PERF_EXEC_PATH", "") + "/scripts/python"):
    if os.path.isfile(os.path.join(directory, "flamegraph.py")):
        sys.path.append(directory)
        break

from flamegraph import FlameGraphCLI # pylint: disable=wrong-import-position

# The bits of prev_state that say why the task does not run. 0: it was preempted.
TASK_REPORT_MASK = 0xff
# Bits of tasks that have ended
TASK_ENDED_MASK = 0x30
# Between the stack that waits and the stack of the waker
SEPARATOR = "--"


class Frame: # pylint: disable=too-few-public-methods
    """A part of a stack: its name, and the kind that decides about its color."""
    def __init__(self, name, libtype=""):
        self.name = name
        self.libtype = libtype


class Wait: # pylint: disable=too-few-public-methods
    """The time that a task is off the CPU, since a switch"""
    def __init__(self, start, comm, stack, preempted):
        self.start = start
        self.comm = comm
        self.stack = stack
        self.preempted = preempted
        self.waker = None


class OffCpu(FlameGraphCLI):
    """Collects stacks, weighted by the time in microseconds"""
    def __init__(self, args):
        super().__init__(args)
        self.waits = {}
        self.folded = {}
        self.end = 0

    def frames(self, callchain):
        """The outermost frame first"""
        return [Frame(entry.get("sym", {}).get("name", "[unknown]"),
                      self.get_libtype_from_dso(entry.get("dso")))
                for entry in reversed(callchain)]

    def add(self, frames, nsecs):
        usecs = nsecs // 1000
        if usecs < max(self.args.min_time, 1):
            return

        if self.args.format == "folded":
            key = ";".join(frame.name.replace(";", ":") for frame in frames)
            self.folded[key] = self.folded.get(key, 0) + usecs
            return

        node = self.stack
        for frame in frames:
            node = self.find_or_create_node(node, frame.name, frame.libtype)
        node.value += usecs

    def finish(self, wait, now, suffix=""):
        if wait.preempted and not self.args.preempted:
            return

        frames = [Frame("off-CPU")] if self.args.on_cpu else []
        frames.append(Frame(wait.comm + suffix))
        frames += wait.stack
        if self.args.wakers:
            frames.append(Frame(SEPARATOR))
            if wait.waker:
                comm, stack = wait.waker
                frames += list(reversed(stack)) + [Frame(comm)]
            else:
                frames.append(Frame("[no waker]"))
        self.add(frames, now - wait.start)

    def switch(self, now, callchain, prev, next_pid, state):
        prev_pid, prev_comm = prev
        self.end = now

        # The idle task does not wait, nor does a task that has ended.
        self.waits.pop(prev_pid, None)
        if prev_pid and not state & TASK_ENDED_MASK:
            self.waits[prev_pid] = Wait(now, prev_comm, self.frames(callchain),
                                        not state & TASK_REPORT_MASK)
        wait = self.waits.pop(next_pid, None)
        if wait:
            self.finish(wait, now)

    def waking(self, now, callchain, waker, pid):
        self.end = now
        wait = self.waits.get(pid)
        if wait and not wait.preempted and not wait.waker:
            wait.waker = (waker, self.frames(callchain))

    def running(self, event):
        """A sample of an event that is not a tracepoint"""
        sample = event.get("sample", {})
        if not self.args.on_cpu or not sample.get("pid"):
            return
        # Only events that count time have a period that can be compared.
        # The name may have modifiers or terms: cpu-clock:u, cpu-clock/freq=99/.
        name = event.get("ev_name", "").split(":")[0].split("/")[0]
        if name not in ("cpu-clock", "task-clock"):
            return
        self.add([Frame("on-CPU"), Frame(event["comm"])] +
                 self.frames(event.get("callchain", [])), sample["period"])

    def trace_end(self):
        for wait in self.waits.values():
            self.finish(wait, self.end, " [still waiting]")

        if self.args.format != "folded":
            super().trace_end()
            return

        lines = [f"{stack} {usecs}\n" for stack, usecs in sorted(self.folded.items())]
        if self.args.output == "-":
            sys.stdout.writelines(lines)
            return
        with open(self.args.output, "w", encoding="utf-8") as out:
            out.writelines(lines)


def time_of(secs, nsecs):
    return secs * 1000000000 + nsecs


def sched__sched_switch(event_name, context, common_cpu, common_secs, common_nsecs,
                        common_pid, common_comm, common_callchain, prev_comm, prev_pid,
                        prev_prio, prev_state, next_comm, next_pid, next_prio):
    cli.switch(time_of(common_secs, common_nsecs), common_callchain,
               (prev_pid, prev_comm), next_pid, prev_state)


def sched__sched_waking(event_name, context, common_cpu, common_secs, common_nsecs,
                        common_pid, common_comm, common_callchain, comm, pid, prio,
                        target_cpu):
    cli.waking(time_of(common_secs, common_nsecs), common_callchain, common_comm, pid)


def process_event(event):
    cli.running(event)


def trace_end():
    cli.trace_end()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Show where tasks wait.")
    parser.add_argument("-f", "--format", default="html", choices=["html", "json", "folded"],
                        help="output format; folded: a stack and its time in a line")
    parser.add_argument("-o", "--output",
                        help="output file name (off-cpu.html, stacks.json); - is standard "
                             "output, which is the default of folded")
    parser.add_argument("--wakers", action="store_true",
                        help="add the stack of the waker, innermost frame first, after "
                             f"'{SEPARATOR}'")
    parser.add_argument("--on-cpu", action="store_true",
                        help="add samples of cpu-clock and task-clock, by the time that "
                             "they stand for")
    parser.add_argument("--preempted", action="store_true",
                        help="add the time of tasks that could run, but were preempted")
    parser.add_argument("--min-time", type=int, default=1, metavar="USECS",
                        help="leave out what takes less than this number of microseconds")
    parser.add_argument("--template",
                        default="/usr/share/d3-flame-graph/d3-flamegraph-base.html",
                        help="path to the HTML template of d3-flame-graph")
    parser.add_argument("--colorscheme", default="blue-green",
                        choices=["blue-green", "orange"], help="colors of the flame graph")
    parser.add_argument("-i", "--input", help=argparse.SUPPRESS)
    parser.add_argument("--allow-download", default=False, action="store_true",
                        help="allow unprompted downloading of the HTML template")

    cli_args = parser.parse_args()
    if not cli_args.output:
        cli_args.output = {"html": "off-cpu.html", "json": "stacks.json",
                           "folded": "-"}[cli_args.format]
    cli = OffCpu(cli_args)

"""Run the scenarios, and count in how many the doctor was right."""

from __future__ import annotations

import argparse
import sys
import time

from benchmarks.doctor.healthy import HEALTHY
from benchmarks.doctor.servers import Scenario, Ward
from benchmarks.doctor.sick import SICK
from pgdrag.findings.doctor import Diagnoses, diagnose
from pgdrag.findings.doctor.words import doctor_lines
from pgdrag.live.window import observe_window
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.sweep import sweep

FIRST = 2  # a planted cause has to be among so many


def main() -> int:
    """Run them, and return 1 where the doctor was wrong too often."""
    parser = argparse.ArgumentParser(prog="benchmarks.doctor", description=__doc__)
    parser.add_argument(
        "--only", metavar="TEXT", action="append", help="those whose names have TEXT"
    )
    parser.add_argument("--which", choices=("sick", "healthy", "both"), default="both")
    parser.add_argument("--show", action="store_true", help="print what the doctor says of each")
    arguments = parser.parse_args()
    scratch = Scratch.open()
    ward, right = Ward(scratch), {"sick": [0, 0], "healthy": [0, 0]}
    try:
        for kind, scenarios in (("sick", SICK), ("healthy", HEALTHY)):
            if arguments.which not in (kind, "both"):
                continue
            for scenario in scenarios:
                if arguments.only and not any(x in scenario.name for x in arguments.only):
                    continue
                is_right = _run(ward, scenario, is_sick=kind == "sick", show=arguments.show)
                right[kind][0] += is_right
                right[kind][1] += 1
    finally:
        sweep(scratch)
    for kind, (count, of) in right.items():
        if of:
            print(f"{kind}: right in {count} of {of}")
    return int(any(of - count > of // 10 for count, of in right.values()))


def _run(ward: Ward, scenario: Scenario, *, is_sick: bool, show: bool) -> bool:
    began_s = time.monotonic()
    try:
        with ward.patient(scenario) as server:
            window = observe_window(server, scenario.for_s)
    except Exception as error:
        print(f"ERROR  {scenario.name}: {type(error).__name__}: {error}", flush=True)
        return False
    found = diagnose(window)
    names = [one.name for one in found.found]
    is_right = scenario.name in names[:FIRST] if is_sick else not names
    took = f"{time.monotonic() - began_s:.0f} s"
    print(
        f"{'right' if is_right else 'WRONG'}  {scenario.name}: {_shares(found)} ({took})",
        flush=True,
    )
    if show or not is_right:
        for line in doctor_lines(window, found, in_full=9):
            print(f"       {line}", flush=True)
    return is_right


def _shares(found: Diagnoses) -> str:
    named = (f"{one.name} {one.severity:.2f}" for one in found.found)
    return ", ".join(named) or "nothing"


if __name__ == "__main__":
    sys.exit(main())

"""What a driver writes for as long as it likes takes no more memory, and no disk."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from test_driver_contract import HELLO, TARGET, done, driver_that, run_fake

from pgdrag.driver.process import Waits, in_pairs
from pgdrag.errors import DriverError


def interval(second: int, **waits: int) -> Waits:
    return Waits(second, second + 1, 2, {"client backend": waits})


def total(intervals: Sequence[Waits]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in intervals:
        found.update(each.processes.get("client backend", {}))
    return found


def test_a_flood_on_standard_error_leaves_its_end_and_no_file(tmp_path: Path) -> None:
    flood = (
        "import os, stat, sys; is_file = stat.S_ISREG(os.fstat(2).st_mode); "
        "[os.write(2, b'x' * 65536) for _ in range(300)]; "
        "print('\\nfile' if is_file else '\\nno file', file=sys.stderr); sys.exit(3)"
    )
    with pytest.raises(DriverError, match="without a result, exit status 3") as raised:
        run_fake(tmp_path, before=[HELLO], end=flood)
    detail = raised.value.detail or ""
    assert detail.endswith("x\nno file")
    assert len(detail) <= 2000


def test_a_line_without_end_is_a_breach_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdrag.driver.conversation.LARGEST_LINE_BYTES", 1 << 20)
    flood = "import os\nwhile True: os.write(1, b'x' * 65536)"
    with pytest.raises(DriverError, match="broke its contract") as raised:
        run_fake(tmp_path, before=[HELLO], end=flood)
    assert raised.value.detail == "It wrote a line of more than 1 MB."


def test_what_outlives_the_driver_and_holds_its_standard_error_holds_nobody_up(
    tmp_path: Path,
) -> None:
    child = (
        "import os, subprocess, sys; "
        "child = subprocess.Popen(['sleep', '60'], stdout=-3, stdin=-3); "
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid)); "
        "print('gone', file=sys.stderr, flush=True); os._exit(4)"
    )
    with pytest.raises(DriverError, match="exit status 4") as raised:
        run_fake(tmp_path, before=[HELLO], end=child)
    assert raised.value.detail == "gone"
    pid = int((tmp_path / "child").read_text())
    assert Path(f"/proc/{pid}").exists()  # nobody waited for its end
    os.kill(pid, signal.SIGKILL)


def test_intervals_that_are_put_together_have_seen_the_same() -> None:
    first = [interval(0, io=3, lock=1), interval(1, io=2), interval(2, cpu=9)]
    (both, last) = in_pairs(first)
    assert (both.started_unix_s, both.finished_unix_s, both.looks) == (0, 2, 4)
    assert both.processes == {"client backend": {"io": 5, "lock": 1}}
    assert last == first[2]
    assert in_pairs([]) == []


def test_a_watch_of_days_keeps_a_bounded_number_of_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdrag.driver.process.MOST_INTERVALS", 8)
    seen = {"client backend": {"io": 1}}
    lines = [
        {"type": "waits", "t_s": second + 1, "duration_s": 1, "looks": 2, "processes": seen}
        for second in range(1001)
    ]
    driver = driver_that(tmp_path, before=[HELLO, *lines, done()], end="sys.stdin.readline()")
    with driver.watching(TARGET, every_s=0.1) as watching:
        found = watching.end()
    assert 4 <= len(found) < 8
    assert total(found) == {"io": 1001}
    assert sum(each.looks for each in found) == 2002
    assert [round(found[0].started_unix_s, 3), round(found[-1].finished_unix_s, 3)] == [0, 1001]
    ends = [(one.finished_unix_s, other.started_unix_s) for one, other in pairwise(found)]
    assert all(end == pytest.approx(begin) for end, begin in ends)

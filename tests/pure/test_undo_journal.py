"""The undo journal: what is noted is put back, whatever happens in between."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgdrag.errors import StorageError, UsageError
from pgdrag.factors.kernel_files import Batch, KernelFiles, Writing
from pgdrag.host.interrupts import uninterrupted
from pgdrag.host.loop_devices import devices_on
from pgdrag.host.process_alive import wait_until
from pgdrag.host.undo import UndoJournal, all_changes, take_warnings
from pgdrag.host.undo._change import Contents, NotedChange, Owner, line
from pgdrag.host.undo.created import LoopDevice, MadeFile, Mounted
from pgdrag.host.undo.remount import Remount
from pgdrag.host.undo.written_value import (
    PLACES,
    LinkedValues,
    WrittenValue,
    shown_value,
    write_value,
)
from stand_ins import ANY_VALUE

pytestmark = pytest.mark.usefixtures("any_value")
REAL_PLACES = PLACES  # before the fixture replaces them
OWNER = Owner(1, 2, "a boot long ago")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[UndoJournal]:
    journal = UndoJournal.open(tmp_path / "undo")
    yield journal
    journal.release()


@pytest.fixture
def value(tmp_path: Path) -> Path:
    """A file such as those of /proc/sys."""
    path = tmp_path / "value"
    path.write_text("20\n")
    return path


def reopened(journal: UndoJournal) -> UndoJournal:
    """Return the journal as the next process finds it."""
    journal.release()
    return UndoJournal.open(journal.directory)


def dead_process_leaves(journal: UndoJournal, change: WrittenValue) -> UndoJournal:
    """Return the journal of a process after one that died in this boot."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    owner = Owner(gone.pid, Owner.this_process().started + 1, Owner.this_process().boot)
    gone.wait()
    journal.release()
    journal.path.write_bytes(NotedChange(1, change, owner).lines())
    return UndoJournal.open(journal.directory)


def test_a_value_is_put_back_and_the_journal_is_empty_again(journal, value):
    noted = journal.note(WrittenValue(str(value), "20"))
    write_value(value, "10")
    noted = journal.settle(noted, WrittenValue(str(value), "20", "10"))
    assert journal.restore(noted).state == "restored"
    assert value.read_text() == "20\n"
    assert journal.path.read_bytes() == b""
    assert journal.restore(noted).state == "already restored"


def test_a_change_that_was_never_made_was_so(journal, value):
    assert journal.restore(journal.note(WrittenValue(str(value), "20"))).state == "already restored"


def test_what_is_restored_in_the_end_is_not_warned_of(journal, value):
    noted = journal.note(WrittenValue(str(value), "20", "10"))
    write_value(value, "15")
    assert journal.restore(noted).state == "changed since"
    assert journal.restore(noted, overwrite=True).state == "restored"
    assert take_warnings() == []


def test_what_somebody_else_changed_is_left_and_told_until_it_may_be_overwritten(journal, value):
    noted = journal.note(WrittenValue(str(value), "20", "10"))
    write_value(value, "15")
    assert journal.restore(noted).state == "changed since"
    assert value.read_text() == "15\n"
    assert not journal.steps()[0].was_reported, "nobody has been told yet"
    (doubt,) = take_warnings()
    assert doubt == (
        f"{value} is 15: someone else has changed it since pgdrag set it from 20 to 10, so it was left alone. "
        'To restore it, run "pgdrag restore --overwrite".'
    )
    assert take_warnings() == []
    assert journal.steps()[0].was_reported
    assert [x.state for x in journal.restore_all(overwrite=True)] == ["restored"]
    assert value.read_text() == "20\n"


def test_a_value_that_was_never_read_back_is_ours_whatever_it_is(journal, value):
    """The process died between writing and reading back, and the kernel had rounded the value."""
    journal = dead_process_leaves(journal, WrittenValue(str(value), "20"))
    write_value(value, "12")
    assert [x.state for x in journal.restore_all()] == ["restored"]
    assert value.read_text() == "20\n"
    journal.release()


def test_of_a_boot_before_nothing_is_left_that_the_kernel_forgot(journal, value):
    journal.release()
    journal.path.write_bytes(NotedChange(1, WrittenValue(str(value), "20"), OWNER).lines())
    write_value(value, "10")
    journal = UndoJournal.open(journal.directory)
    assert [x.state for x in journal.restore_all()] == ["gone"]
    assert value.read_text() == "10\n"
    journal.release()


def test_a_file_that_is_gone_has_nothing_to_put_back(journal, value):
    noted = journal.note(WrittenValue(str(value), "20", "10"))
    value.unlink()
    assert journal.restore(noted).state == "gone"


def test_the_newest_change_is_put_back_first(journal, value):
    for before, after in (("20", "10"), ("10", "5")):
        journal.note(WrittenValue(str(value), before, after))
        write_value(value, after)
    assert [x.state for x in journal.restore_all()] == ["restored", "restored"]
    assert value.read_text() == "20\n"


def test_of_linked_values_all_are_left_where_one_is_somebody_elses(journal, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    write_value(one, "b")
    write_value(other, "8")
    values = (WrittenValue(str(one), "a", "b"), WrittenValue(str(other), "1", "2"))
    noted = journal.note(LinkedValues(values))
    assert journal.restore(noted).state == "changed since"
    assert (one.read_text(), other.read_text()) == ("b\n", "8\n")
    assert journal.restore(noted, overwrite=True).state == "restored"
    assert (one.read_text(), other.read_text()) == ("a\n", "1\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("20\n", "20"),
        ("4096\t131072\t6291456\n", "4096 131072 6291456"),
        ("none [mq-deadline] kyber\n", "mq-deadline"),
        ("[always] madvise never\n", "always"),
        ("a[1] [b] [c]\n", "a[1] [b] [c]"),
        ("\n", ""),
    ],
)
def test_a_kernel_file_is_shown_as_what_is_in_force(tmp_path, text, shown):
    path = tmp_path / "file"
    path.write_text(text)
    assert shown_value(path) == shown


def test_every_change_keeps_itself_in_json(journal, value):
    assert {"written_value", "linked_values"} <= set(all_changes())
    change = LinkedValues((WrittenValue("/proc/sys/vm/ünïcode\n", "a b", None),))
    journal.note(change)
    journal = reopened(journal)
    assert [x.change for x in journal.steps()] == [change]
    journal.release()


def test_one_process_opens_it_twice(journal):
    assert UndoJournal.open(journal.directory) is journal


def test_another_process_is_kept_apart_and_told_whom_to_wait_for(journal):
    code = (
        "import sys; from pathlib import Path; from pgdrag.host.undo import UndoJournal; "
        "from pgdrag.errors import UsageError\n"
        "try: UndoJournal.open(Path(sys.argv[1]))\n"
        "except UsageError as error: print(error)"
    )
    command = [sys.executable, "-c", code, str(journal.directory)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    who = f"another pgdrag (process {os.getpid()})"
    assert said == f"{who} is changing this machine's operating system or a server\n"


def test_the_directory_is_private(journal):
    assert journal.directory.stat().st_mode & 0o777 == 0o700


def test_a_place_that_cannot_be_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="could not make the undo journal"):
        UndoJournal.open(tmp_path / "file" / "undo")


def test_a_directory_that_others_can_write_is_refused(tmp_path):
    """Root would write what they note wherever they say."""
    (tmp_path / "undo").mkdir()
    (tmp_path / "undo").chmod(0o777)
    with pytest.raises(StorageError, match="others could replace") as refused:
        UndoJournal.open(tmp_path / "undo")
    assert "can write to" in str(refused.value.detail)


def test_looking_for_leftovers_makes_nothing_and_waits_for_nobody(journal, tmp_path):
    assert UndoJournal.with_leftovers(tmp_path / "none") is None
    assert not (tmp_path / "none").exists()
    assert UndoJournal.with_leftovers(journal.directory) is None


@pytest.mark.parametrize("is_fifo", [True, False])
def test_what_is_no_file_in_the_place_of_the_journal_is_refused_and_not_waited_for(
    journal, value, is_fifo
):
    journal.release()
    journal.path.unlink()
    if is_fifo:
        os.mkfifo(journal.path)
    else:
        journal.path.symlink_to(value)
    for open_it in (UndoJournal.has_leftovers, UndoJournal.open):
        with pytest.raises(StorageError, match=r"it is not a regular file|symbolic link"):
            open_it(journal.directory)
    assert value.read_text() == "20\n"


def test_the_steps_of_a_process_that_lives_are_not_touched(journal, value):
    write_value(value, "10")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as living:
        # Under hidepid it is in sight a moment after it runs its program.
        assert wait_until(lambda: Owner.of(living.pid) is not None, 10)
        owner = Owner.of(living.pid)
        journal.release()
        journal.path.write_bytes(NotedChange(1, WrittenValue(str(value), "20"), owner).lines())
        journal = UndoJournal.open(journal.directory)
        assert journal.restore_all() == []
        assert value.read_text() == "10\n"
        living.kill()
        living.wait()
        assert [x.state for x in journal.restore_all()] == ["restored"]
    journal.release()


def test_a_line_that_a_newer_pgdrag_wrote_is_told_and_kept(journal):
    strange = b'{"step": 1, "change": "sunk_ship", "with": {}, "owner": {}}\n'
    journal.release()
    journal.path.write_bytes(strange + b'{"step": 2, "ch')
    journal = UndoJournal.open(journal.directory)
    assert journal.path.read_bytes() == strange
    (sentence,) = journal.unreadable()
    assert sentence.startswith("Line 1 of ")
    assert "sunk_ship" in sentence
    journal.release()


NOWHERE = "/nowhere/pgdrag-at all"
STORAGE_CHANGES = [
    (MadeFile(NOWHERE), 'file "/nowhere/pgdrag-at all" was created', "already restored"),
    (
        LoopDevice(NOWHERE),
        'a loop device was attached to "/nowhere/pgdrag-at all"',
        "already restored",
    ),
    (Mounted(NOWHERE), 'a file system was mounted at "/nowhere/pgdrag-at all"', "already restored"),
    (
        Remount(NOWHERE, "/dev/vda", {"atime": "relatime", "diratime": "diratime"}),
        'mount options of "/nowhere/pgdrag-at all", changed from relatime,diratime',
        "gone",
    ),
    (
        Remount(NOWHERE, "/dev/vda", {"atime": "relatime"}, {"atime": "noatime"}),
        'mount options of "/nowhere/pgdrag-at all", set to noatime from relatime',
        "gone",
    ),
]


@pytest.mark.parametrize(("change", "words", "state"), STORAGE_CHANGES)
def test_a_change_of_storage_is_kept_told_and_put_back(journal, change, words, state):
    journal.note(change)
    again = reopened(journal)
    (step,) = again.steps()
    assert step.change == change
    assert step.change.words() == words
    assert [each.state for each in again.restore_all()] == [state]
    assert again.steps() == []
    again.release()


def test_a_file_that_was_made_is_deleted_and_once_is_enough(tmp_path):
    file = tmp_path / "pgdrag-file"
    file.write_text("x")
    change = MadeFile(str(file))
    assert change.restore(overwrite=False).state == "restored"
    assert not file.exists()
    assert change.restore(overwrite=False).state == "already restored"
    assert MadeFile.survives_boot
    assert not any(kind.survives_boot for kind in (LoopDevice, Mounted, Remount))


# The laws: whatever prefix of the file is on the disk, and at whatever moment the process is killed.

PATHS = ("/a", "/b", "/c")
changes = st.builds(
    WrittenValue, st.sampled_from(PATHS), st.text(max_size=4), st.none() | st.text(max_size=4)
)


@given(
    st.lists(st.tuples(changes, st.sampled_from(["open", "told", "done"])), max_size=6), st.data()
)
def test_any_prefix_of_the_file_says_what_its_whole_lines_say(written, data):
    lines = []
    for step, (change, then) in enumerate(written, 1):
        lines.append(NotedChange(step, change, OWNER).lines())
        if then == "told":
            lines.append(line(step=step, told=True))
        if then == "done":
            lines.append(line(step=step, done="restored"))
    content = b"".join(lines)
    cut = data.draw(st.integers(0, len(content)))
    whole = content[: content.rfind(b"\n", 0, cut) + 1]
    found = Contents(content[:cut])
    assert found.unreadable == []
    assert found.valid_bytes == len(whole)
    assert found.open_steps == Contents(whole).open_steps


@given(st.binary(max_size=200))
@example(b"\r\x00\n")
def test_no_content_breaks_the_reading(content):
    found = Contents(content)
    assert found.valid_bytes <= len(content)
    assert len(found.unreadable) + len(found.open_steps) <= content.count(b"\n")


class Killed(BaseException):
    """The process ends here, without a chance to clear away."""


def killed_after(moments: int):
    left = moments

    def moment() -> None:
        nonlocal left
        if left == 0:
            raise Killed
        left -= 1

    return moment


@given(
    levels=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("1234")), max_size=4),
    moment=st.integers(0, 24),
    torn=st.integers(0, 60),
)
def test_killed_at_any_moment_the_next_start_finds_or_makes_all_as_before(
    tmp_path_factory, levels, moment, torn
):
    """note → write → settle → … → put back, cut off between any two steps, the last line torn."""
    place = tmp_path_factory.mktemp("host")
    files = {name: place / name for name in "abc"}
    for name, path in files.items():
        write_value(path, f"before {name}")
    journal = UndoJournal.open(place / "undo")
    alive = killed_after(moment)
    try:
        for name, value in levels:
            before = shown_value(files[name])
            change = WrittenValue(str(files[name]), before)
            alive()
            noted = journal.note(change)
            alive()
            write_value(files[name], value)
            alive()
            journal.settle(noted, WrittenValue(change.path, before, value))
        for noted in reversed(journal.steps()):
            alive()
            journal.restore(noted)
    except Killed:
        pass
    journal.release()
    with journal.path.open("ab") as file:
        file.write(NotedChange(99, WrittenValue(str(files["a"]), "x"), OWNER).lines()[:torn])
    next_start = UndoJournal.open(place / "undo")
    assert all(x.state in ("restored", "already restored") for x in next_start.restore_all())
    next_start.release()
    for name, path in files.items():
        assert shown_value(path) == f"before {name}"


def test_a_signal_in_the_middle_of_undoing_waits_until_its_end():
    done = []

    def undo() -> None:
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            done.append("all")

    with pytest.raises(KeyboardInterrupt):
        undo()
    assert done == ["all"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_signals_wait_for_the_outermost_of_nested_undoings():
    done = []

    def undo() -> None:
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(signal.SIGINT)
            done.append("all")

    with pytest.raises(KeyboardInterrupt):
        undo()
    assert done == ["all"]


def test_a_process_that_ends_puts_back_what_it_noted(tmp_path, value):
    code = (
        f"{ANY_VALUE}import sys; from pathlib import Path; from pgdrag.host.undo import UndoJournal\n"
        "from pgdrag.host.undo.written_value import WrittenValue, write_value\n"
        "journal = UndoJournal.open(Path(sys.argv[1]))\n"
        "journal.note(WrittenValue(sys.argv[2], '20'))\n"
        "write_value(Path(sys.argv[2]), '10')\n"
        "raise KeyboardInterrupt\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "undo"), str(value)]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0
    assert value.read_text() == "20\n"
    assert (tmp_path / "undo" / "undo.jsonl").read_bytes() == b""


def test_the_lock_is_given_up(journal):
    reopened(journal).release()
    with pytest.raises(AssertionError, match="closed"):
        journal.note(WrittenValue("/x", "1"))


# What goes wrong with one change, or with the disk.


class Broken(Exception):
    """A mistake in the code of one kind of change."""


@pytest.mark.parametrize("error", [Broken("no"), UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "no")])
def test_a_change_that_cannot_be_undone_is_reported_and_the_others_are_undone(
    journal, tmp_path, monkeypatch, error
):
    """Fault 8: step 2 of 3 raises."""
    files = [tmp_path / name for name in ("one", "two", "three")]
    for file in files:
        write_value(file, "20")
        journal.note(WrittenValue(str(file), "20"))
        write_value(file, "10")

    def fail_for_two(path: Path) -> str:
        if path == files[1]:
            raise error
        return shown_value(path)

    with monkeypatch.context() as broken:
        broken.setattr("pgdrag.host.undo.written_value.shown_value", fail_for_two)
        states = [x.state for x in journal.restore_all()]
    assert states == ["restored", "failed", "restored"]
    assert [file.read_text() for file in files] == ["20\n", "10\n", "20\n"]
    (warning,) = take_warnings()
    assert warning.startswith(f"{files[1]}, changed from 20, could not be restored: ")
    again = reopened(journal)
    assert [x.state for x in again.restore_all()] == ["restored"]
    assert files[1].read_text() == "20\n"
    again.release()


def test_who_had_nowhere_to_tell_it_leaves_it_to_the_next_process(journal, value, monkeypatch):
    journal.note(WrittenValue(str(value), "10", "5"))  # it reads 20

    write = os.write

    def closed(fd: int, content: bytes) -> int:
        if fd == 2:
            raise OSError(errno.EPIPE, "no reader")
        return write(fd, content)

    with monkeypatch.context() as broken:
        broken.setattr(os, "write", closed)
        journal.close()
    again = UndoJournal.open(journal.directory)
    assert [step.was_reported for step in again.steps()] == [False]
    again.release()


def test_a_loop_device_on_a_file_that_is_no_utf8_spoils_nothing(
    journal, value, monkeypatch, tmp_path
):
    """Fault 7: one of somebody else's, anywhere on the host."""
    (tmp_path / "loop0" / "loop").mkdir(parents=True)
    (tmp_path / "loop0" / "loop" / "backing_file").write_bytes(b"/srv/caf\xe9.img\n")
    monkeypatch.setattr("pgdrag.host.loop_devices._BLOCK", tmp_path)
    journal.note(WrittenValue(str(value), "20", "10"))
    write_value(value, "10")
    journal.note(LoopDevice(NOWHERE))
    assert [x.state for x in journal.restore_all()] == ["already restored", "restored"]
    assert value.read_text() == "20\n"
    assert devices_on(Path(os.fsdecode(b"/srv/caf\xe9.img"))) == [Path("/dev/loop0")]


@pytest.mark.parametrize(
    ("call", "number"), [("write", errno.ENOSPC), ("write", errno.EIO), ("fsync", errno.EIO)]
)
def test_what_cannot_be_noted_on_disk_is_not_changed(
    journal, value, monkeypatch, tmp_path, call, number
):
    """Faults 9 and 10: no room for the line, or the disk says afterwards that it is not there."""
    real = getattr(os, call)

    def fail(fd: int, *rest: object) -> object:
        if Path(f"/proc/self/fd/{fd}").readlink() == journal.path:
            raise OSError(number, os.strerror(number))
        return real(fd, *rest)

    factor = WrittenFile(value)
    monkeypatch.setenv("PGDRAG_UNDO", str(journal.directory))
    with monkeypatch.context() as broken:
        broken.setattr(os, call, fail)
        with pytest.raises(StorageError, match="could not write the undo journal"):
            factor.write(Path(), {"value": "10"})
    assert value.read_text() == "20\n"
    assert journal.path.read_bytes() == b""
    assert journal.steps() == []
    factor.write(Path(), {"value": "10"})
    assert value.read_text() == "10\n"
    factor.take_back()
    assert value.read_text() == "20\n"


class WrittenFile(KernelFiles):
    """A factor, as those of the operating system are, for one file."""

    name = "written_file"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def problem(self, level, here):
        return None

    def file_of(self, name, here):
        return self.path

    def batches(self, data_directory, levels):
        yield Batch(tuple(Writing(name, value, (self.path,)) for name, value in levels.items()))


def test_whatever_byte_of_the_journal_was_the_last_on_the_disk_all_is_undone(tmp_path):
    """Fault 11, where no disk can be replayed: killed after any byte that was written to the journal.

    A value is written only once its whole line is on the disk: while a line is written, the values are
    those of before it.
    """
    files = [tmp_path / name for name in ("one", "two")]
    for file in files:
        write_value(file, "20")
    journal = UndoJournal.open(tmp_path / "undo")
    moments: list[tuple[bytes, list[str]]] = [(b"", ["20", "20"])]

    def look() -> None:
        moments.append((journal.path.read_bytes(), [shown_value(file) for file in files]))

    for file, value in zip(files, ("10", "11"), strict=True):
        noted = journal.note(WrittenValue(str(file), "20"))
        look()
        write_value(file, value)
        look()
        journal.settle(noted, WrittenValue(str(file), "20", value))
        look()
    journal.restore(noted)  # the newest; its line is the last
    look()
    journal.release()
    for (before, _), (after, values) in pairwise(moments):
        assert after.startswith(before)
        prefixes = [after[:length] for length in range(len(before), len(after) + 1)]
        # What reads alike is undone alike: of those the longest, which has the most of a line.
        for prefix in {str(Contents(each).open_steps): each for each in prefixes}.values():
            journal.path.write_bytes(prefix)
            for file, value in zip(files, values, strict=True):
                write_value(file, value)
            later = UndoJournal.open(journal.directory)
            assert {x.state for x in later.restore_all()} <= {"restored", "already restored"}
            later.release()
            assert [shown_value(file) for file in files] == ["20", "20"]
            assert later.path.read_bytes() == b""


@pytest.mark.parametrize(
    "change",
    [
        {"change": "made_file", "with": {"path": "/etc/passwd"}},
        {"change": "made_file", "with": {"path": "/var/tmp/pgdrag-0/../../../etc/passwd"}},
        {"change": "made_file", "with": {"path": "pgdrag-0/file"}},
        {"change": "mounted", "with": {"mount_point": "/home"}},
        {"change": "loop_device", "with": {"backing_file": "/srv/disk.img"}},
        {"change": "control_group", "with": {"path": "/sys/fs/cgroup/system.slice"}},
        {"change": "written_value", "with": {"path": "/etc/shadow", "before": "root::"}},
        {"change": "written_value", "with": {"path": "/sys/kernel/uevent_helper", "before": "/x"}},
        {
            "change": "written_value",
            "with": {"path": "/proc/sys/kernel/core_pattern", "before": "|/tmp/x"},
        },
        *(
            {"change": "written_value", "with": {"path": path, "before": "x"}}
            for path in (
                "/proc/sys/vm/../../../etc/cron.d/x",
                "/proc/sys/kernel//core_pattern",
                "/proc/sys/kernel/./core_pattern",
                "/proc/sys/kernel/core_pattern/",
            )
        ),
        {
            "change": "linked_values",
            "with": {"values": [{"path": "/etc/hosts", "before": "x", "after": None}]},
        },
        {
            "change": "remount",
            "with": {
                "mount_point": "/",
                "source": "/dev/sda",
                "before": {"atime": "relatime,suid"},
            },
        },
        {
            "change": "prepared_transaction",
            "with": {"gid": "somebody's", "conninfo": "", "where": "x"},
        },
    ],
)
def test_a_line_that_names_what_is_not_pgdrags_undoes_nothing(journal, monkeypatch, change):
    """F16: whoever could write to the journal would write with root's rights anywhere."""
    monkeypatch.setattr("pgdrag.host.undo.written_value.PLACES", REAL_PLACES)
    journal.release()
    owner = {"pid": 1, "started": 0, "boot": Owner.this_process().boot}
    journal.path.write_bytes(line(step=1, owner=owner, **change))
    journal = UndoJournal.open(journal.directory)
    assert journal.steps() == []
    (sentence,) = journal.unreadable()
    assert "its change was not undone" in sentence
    assert re.search("is not pgdrag's|is not a (value|control|prepared|mount)", sentence), sentence
    journal.release()


def test_a_change_of_the_kernels_is_refused_while_another_pgdrag_changes_it(
    journal, value, tmp_path, monkeypatch
):
    """F17: another undo journal, or another container, is another directory but the same kernel."""
    monkeypatch.setattr("pgdrag.host.kernel_lock._NAMESPACES", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    holder = {os.getpid(): 0}
    monkeypatch.setattr("pgdrag.host.undo._journal.uid_of", holder.get)
    (tmp_path / "user").touch()
    change = WrittenValue("/proc/sys/vm/dirty_ratio", "20")
    with (tmp_path / "user").open() as others:
        fcntl.flock(others, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match=rf"another pgdrag \(process {os.getpid()}\)"):
            journal.note(change)
        assert journal.path.read_bytes() == b""
        journal.note(WrittenValue(str(value), "20"))  # not the kernel's
        holder[os.getpid()] = 4711  # whoever it is: no pgdrag that changes the kernel
        journal._steps.pop(journal.note(change).step)
    journal._kernel.close()
    journal._kernel = None
    noted = journal.note(change)
    with (tmp_path / "user").open() as others, pytest.raises(BlockingIOError):
        fcntl.flock(others, fcntl.LOCK_EX | fcntl.LOCK_NB)
    journal._steps.pop(noted.step)  # it was not made
    journal.release()
    with (tmp_path / "user").open() as others:
        fcntl.flock(others, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_place_of_a_value_is_one_of_the_kernels_that_only_tunes_it(monkeypatch):
    monkeypatch.setattr("pgdrag.host.undo.written_value.PLACES", REAL_PLACES)
    for path in (
        "/proc/sys/vm/dirty_ratio",
        "/sys/block/vda/queue/scheduler",
        "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ):
        assert WrittenValue(path, "1").is_kernel_wide()


def test_a_file_that_others_could_exchange_is_not_deleted(tmp_path):
    shared = tmp_path / "pgdrag-shared"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "file").write_text("x")
    result = MadeFile(str(shared / "file")).restore(overwrite=False)
    assert result.state == "failed"
    assert "can write to" in result.sentence
    assert (shared / "file").exists()

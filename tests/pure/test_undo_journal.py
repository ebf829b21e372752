"""The undo journal: what is noted is put back, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgdrag.errors import StorageError
from pgdrag.host.interrupts import uninterrupted
from pgdrag.host.undo import UndoJournal, all_changes, take_warnings
from pgdrag.host.undo._change import Contents, NotedChange, Owner, line
from pgdrag.host.undo.created import LoopDevice, MadeFile, Mounted
from pgdrag.host.undo.remount import Remount
from pgdrag.host.undo.written_value import LinkedValues, WrittenValue, shown_value, write_value

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


def test_what_somebody_else_changed_is_left_and_told_until_it_may_be_overwritten(journal, value):
    noted = journal.note(WrittenValue(str(value), "20", "10"))
    write_value(value, "15")
    assert journal.restore(noted).state == "changed since"
    assert value.read_text() == "15\n"
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
    assert (
        said
        == f"another pgdrag (process {os.getpid()}) is changing this machine's operating system\n"
    )


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
    with pytest.raises(StorageError, match="users other than"):
        UndoJournal.open(tmp_path / "undo")


def test_looking_for_leftovers_makes_nothing_and_waits_for_nobody(journal, tmp_path):
    assert UndoJournal.with_leftovers(tmp_path / "none") is None
    assert not (tmp_path / "none").exists()
    assert UndoJournal.with_leftovers(journal.directory) is None


def test_the_steps_of_a_process_that_lives_are_not_touched(journal, value):
    write_value(value, "10")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as living:
        fields = Path(f"/proc/{living.pid}/stat").read_text().rpartition(")")[2].split()
        owner = Owner(living.pid, int(fields[19]), Owner.this_process().boot)
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


NOWHERE = "/nowhere/at all"
STORAGE_CHANGES = [
    (MadeFile(NOWHERE), 'file "/nowhere/at all" was created', "already restored"),
    (LoopDevice(NOWHERE), 'a loop device was attached to "/nowhere/at all"', "already restored"),
    (Mounted(NOWHERE), 'a file system was mounted at "/nowhere/at all"', "already restored"),
    (
        Remount(NOWHERE, "/dev/vda", {"atime": "relatime", "diratime": "diratime"}),
        'mount options of "/nowhere/at all", changed from relatime,diratime',
        "gone",
    ),
    (
        Remount(NOWHERE, "/dev/vda", {"atime": "relatime"}, {"atime": "noatime"}),
        'mount options of "/nowhere/at all", set to noatime from relatime',
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
    file = tmp_path / "file"
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
        "import sys; from pathlib import Path; from pgdrag.host.undo import UndoJournal\n"
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

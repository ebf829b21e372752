"""What perf prints becomes stacks, and no sample is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pgdrag.collectors.profile import MOST_STACKS, REST, Sample, fold, read_samples

# As perf 6.1 prints it with -F pid,time,ip,sym,dso; servers' paths are shortened.
PRINTED = (Path(__file__).parent / "program_output" / "perf-script.txt").read_text()


def test_a_stack_goes_from_the_outside_in_and_marks_the_kernel() -> None:
    session, worker, compiler, bare = read_samples(PRINTED.splitlines(keepends=True))
    assert (session.pid, session.unix_s) == (15658, 1763780701.123456)
    assert session.frames[0] == "_start"
    assert session.frames[1] == "__libc_start_main"
    assert session.frames[-3:] == (
        "epoll_wait",
        "do_syscall_64_[k]",
        "finish_task_switch_[k]",
    )
    # Two neighbours without a name are one, and the unwinder's end is none.
    assert worker.frames == (
        "StartBackgroundWorker",
        "ParallelWorkerMain",
        "[postgres]",
        "ExecScan",
    )
    assert compiler.frames == (
        "(anonymous namespace)::run(llvm::Module (*)(int), bool)",
        "[kernel]_[k]",
    )
    assert bare.frames == ()


def test_stacks_begin_with_the_type_of_process_and_where_types_differ() -> None:
    folded = fold(read_samples(PRINTED.splitlines()), {15660: "checkpointer"})
    assert {stack.frames[:2] for stack in folded} == {
        ("client backend", "PostgresMain"),  # told by its stack
        ("parallel worker", "ParallelWorkerMain"),
        ("checkpointer", "(anonymous namespace)::run(llvm::Module (*)(int), bool)"),
        ("other process",),
    }
    assert [stack.samples for stack in folded] == [1, 1, 1, 1]


def test_what_was_looked_up_is_believed_more_than_the_stack() -> None:
    folded = fold([Sample(7, 0.0, ("_start", "main", "PostgresMain"))], {7: "walsender"})
    assert [stack.frames for stack in folded] == [("walsender", "PostgresMain")]


frames = st.lists(
    st.sampled_from(["_start", "main", "PostgresMain", "f", "g", "h_[k]"]), max_size=6
)


@given(st.lists(st.builds(Sample, st.integers(1, 5), st.just(0.0), frames.map(tuple))))
def test_folding_keeps_every_sample(samples: list[Sample]) -> None:
    folded = fold(samples, {1: "checkpointer", 2: "client backend"})
    assert sum(stack.samples for stack in folded) == len(samples)
    assert len({stack.frames for stack in folded}) == len(folded)
    assert all(stack.frames and stack.samples > 0 for stack in folded)


def test_rare_stacks_beyond_the_most_are_one_of_their_type() -> None:
    many = [Sample(1, 0.0, (f"f{n}",)) for n in range(MOST_STACKS + 9)]
    folded = fold([*many, many[-1]], {1: "startup"})
    assert len(folded) == MOST_STACKS + 1
    assert folded[0].samples == 2
    assert (folded[-1].frames, folded[-1].samples) == (("startup", REST), 9)
    assert Counter(stack.samples for stack in folded[1:-1]) == {1: MOST_STACKS - 1}


@given(st.text())
def test_no_text_is_a_mistake(text: str) -> None:
    for sample in read_samples(text.splitlines()):
        assert sample.pid >= 0

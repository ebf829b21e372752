"""Mechanisms are shown by their signs, and charged with the time that their factors added."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis_runs import observation, result, run_of, rung
from pgdrag.collectors import observation_names
from pgdrag.findings.find import find
from pgdrag.findings.mechanisms import signs
from pgdrag.findings.mechanisms.analysis import MechanismsFinding
from pgdrag.findings.mechanisms.catalogue import CATALOGUE, OF_LEDGER
from pgdrag.findings.mechanisms.ledger import (
    BY_AUTOVACUUM,
    BY_BACKGROUND,
    BY_OTHERS,
    BY_SESSIONS,
    COMPONENTS,
    HELD,
    NEEDED,
    READ,
    Ledger,
    added,
    ledger,
    pooled,
)
from pgdrag.findings.mechanisms.signs import adjusted, reading, spread
from pgdrag.findings.movement import Movements
from pgdrag.findings.values import Verdict
from pgdrag.model.recordings import Recordings, WaitTime
from pgdrag.report.rung_words import change_sentence, mechanisms_sentence, time_sentence

NAMES = [component.name for component in COMPONENTS]
seconds = st.floats(1e-6, 10)


def book(counts=None, **parts):
    return Ledger({name: parts.get(name, 0.0) for name in NAMES}, counts or {}, 1e-9, 1000)


TIMES = st.lists(seconds, min_size=len(NAMES), max_size=len(NAMES))


@given(TIMES, TIMES)
def test_the_parts_add_up_to_what_a_transaction_takes_longer(then, now):
    before, after = (
        book({NEEDED: side[0] * 1e3, READ: side[1] * 1e2}, **dict(zip(NAMES, side, strict=True)))
        for side in (then, now)
    )
    parts = added(before, after)
    assert all(part.added_s >= 0 for part in parts)
    longer_s = max(sum(now) - sum(then), 0)
    assert sum(part.added_s for part in parts) == pytest.approx(longer_s, abs=1e-7)


def test_twice_the_blocks_at_the_same_wait_each_is_charged_to_the_blocks():
    before = book({NEEDED: 100.0, READ: 10.0}, read=0.01)
    after = book({NEEDED: 200.0, READ: 20.0}, read=0.02)
    (part,) = added(before, after)
    assert (part.component, part.factor) == ("read", NEEDED)
    assert part.added_s == pytest.approx(0.01)


def test_a_longer_wait_for_each_block_is_charged_to_the_rest():
    before = book({NEEDED: 100.0, READ: 10.0}, read=0.01)
    after = book({NEEDED: 100.0, READ: 10.0}, read=0.05)
    (part,) = added(before, after)
    assert (part.factor, part.added_s) == ("", pytest.approx(0.04))


def test_factors_that_grow_by_the_same_factor_share_alike():
    before = book({NEEDED: 100.0, READ: 10.0}, read=0.01)
    after = book({NEEDED: 200.0, READ: 40.0}, read=0.08)
    shares = [part.added_s / 0.07 for part in added(before, after)]
    assert shares == [pytest.approx(1 / 3)] * 3


def test_waiting_for_others_that_grows_with_them_is_charged_to_what_they_do():
    before = book(read=0.01, **{HELD: 0.01})
    after = book(read=0.02, **{HELD: 0.02})
    parts = added(before, after)
    assert {part.component for part in parts} == {"read"}
    assert sum(part.added_s for part in parts) == pytest.approx(0.02)


def test_waiting_for_a_processor_is_charged_to_those_that_are_on_them_more():
    shares = {BY_SESSIONS: 0.2, BY_AUTOVACUUM: 0.0, BY_BACKGROUND: 0.1}
    before = book(shares | {NEEDED: 10.0}, cpu=0.01, queue=0.01)
    shares |= {BY_SESSIONS: 0.3, BY_AUTOVACUUM: 0.3}
    after = book(shares | {NEEDED: 20.0}, cpu=0.02, queue=0.05)
    told = {(part.component, part.factor): part.added_s for part in added(before, after)}
    assert told == pytest.approx(
        {("cpu", NEEDED): 0.01, ("queue", NEEDED): 0.01, ("queue", BY_AUTOVACUUM): 0.03}
    )


def test_waiting_for_a_processor_that_nobody_of_the_server_took_is_charged_to_others():
    shares = {BY_SESSIONS: 0.2, BY_AUTOVACUUM: 0.0, BY_BACKGROUND: 0.1}
    (part,) = added(book(shares, client=0.01), book(shares, client=0.03))
    assert (part.component, part.factor) == ("client", BY_OTHERS)


def test_waiting_for_a_processor_is_not_charged_to_those_that_take_hardly_more_of_them():
    shares = {BY_SESSIONS: 0.5, BY_AUTOVACUUM: 0.0016, BY_BACKGROUND: 0.003}
    more = {BY_SESSIONS: 0.4, BY_AUTOVACUUM: 0.0017, BY_BACKGROUND: 0.002}
    (part,) = added(book(shares, queue=0.0005), book(more, queue=0.001))
    assert (part.component, part.factor) == ("queue", BY_OTHERS)


def test_waiting_for_others_who_take_no_longer_is_its_own():
    parts = added(book(cpu=0.01, **{HELD: 0.001}), book(cpu=0.01, **{HELD: 0.5}))
    assert [part.component for part in parts] == [HELD]


def test_a_ledger_knows_sessions_alone_and_each_wait_once():
    waits = [
        WaitTime("client backend", "IO:DataFileRead", 2.0),
        WaitTime("parallel worker", "IO:AioIoCompletion", 1.0),
        WaitTime("client backend", "IO:DataFileWrite", 0.5),
        WaitTime("client backend", "Lock:transactionid", 0.25),
        WaitTime("client backend", "Extension:Extension", 0.125),
        WaitTime("client backend", "", 4.0),
        WaitTime("checkpointer", "IO:DataFileWrite", 99.0),
    ]
    cpu = observation("session_cpu_s_per_transaction", 0.003, "s/transaction")
    queue = observation("session_cpu_wait_s_per_transaction", 0.001, "s/transaction")
    found = ledger(waits, [cpu, queue], committed=1000)
    assert found is not None
    told = {name: time_s for name, time_s in found.seconds.items() if time_s}
    assert told == pytest.approx(
        {"read": 3e-3, "write": 5e-4, HELD: 2.5e-4, "other": 1.25e-4, "cpu": 3e-3, "queue": 1e-3}
    )
    assert found.whole_s == pytest.approx(7.875e-3)
    assert ledger(waits, [], committed=0) is None
    assert ledger([], [cpu], committed=9) is None


def test_a_session_that_was_woken_and_waits_for_a_processor_is_in_no_wait():
    waits = [
        WaitTime("client backend", "Client:ClientRead", 6.0),
        WaitTime("client backend", "IO:WalSync", 2.0),
        WaitTime("client backend", "", 2.0),
    ]
    cpu = observation("session_cpu_s_per_transaction", 0.0015, "s/transaction")
    queue = observation("session_cpu_wait_s_per_transaction", 0.0045, "s/transaction")
    found = ledger(waits, [cpu, queue], committed=1000)
    assert found is not None
    told = {name: time_s for name, time_s in found.seconds.items() if time_s}
    assert told == pytest.approx({"client": 3e-3, "wal": 1e-3, "cpu": 1.5e-3, "queue": 4.5e-3})
    assert found.whole_s == pytest.approx(10e-3)


def test_ledgers_of_several_trials_weigh_by_their_transactions():
    one = replace(book({READ: 1.0}, cpu=0.1), committed=10)
    ten = replace(book({READ: 3.0}, cpu=0.3), committed=30)
    both = pooled([one, ten])
    assert both.seconds["cpu"] == pytest.approx(0.25)
    assert both.counts[READ] == pytest.approx(2.5)


def readings(*values, unit="1/transaction", resolution=1e-4):
    seen = [replace(observation("x", value, unit), resolution=resolution) for value in values]
    found = [reading(one, 10_000, resolution) for one in seen]
    assert all(one is not None for one in found)
    return found


def test_a_movement_is_no_chance_where_trials_hardly_differ():
    quiet = spread([readings(10, 10.1, 9.9), readings(20, 20.2, 19.9)])
    test = signs.tested("up", readings(10, 10.1), readings(20, 20.2), quiet)
    assert test.has_moved
    assert test.p is not None
    assert test.p < 1e-4
    other_way = signs.tested("down", readings(10, 10.1), readings(20, 20.2), quiet)
    assert not other_way.has_moved
    assert other_way.p is not None
    assert other_way.p > 0.99


def test_the_same_movement_is_chance_where_trials_differ_as_much():
    unsteady = spread([readings(5, 20, 10), readings(10, 40, 20)])
    test = signs.tested("up", readings(10, 10.1), readings(20, 20.2), unsteady)
    assert test.p is not None
    assert test.p > 0.05


@pytest.mark.parametrize(("events", "is_sure"), [((0, 0, 5, 5), True), ((0, 0, 1, 0), False)])
def test_few_events_are_counted_and_not_taken_for_logarithms(events, is_sure):
    seen = [replace(observation("x", n / 10, "1/s"), resolution=0.1) for n in events]
    found = [reading(one, 10_000, 0.1) for one in seen]
    noise = spread([found[:2], found[2:]])
    test = signs.tested("up", found[:2], found[2:], noise)
    assert test.p is not None
    assert (test.p < 0.001) == is_sure
    if is_sure:
        assert test.p == pytest.approx(2**-10)


def test_without_any_repeat_nobody_knows():
    unknown = spread([readings(10), readings(20)])
    assert signs.tested("up", readings(10), readings(20), unknown).p is None


def test_none_in_a_long_trial_and_in_a_short_one_is_no_movement():
    none = [replace(observation("x", 0.0, "1/s"), resolution=size) for size in (0.01, 1.0)]
    long, short = (reading(one, 10_000, 1.0) for one in none)
    assert long is not None
    assert short is not None
    assert long.value == short.value


@given(st.dictionaries(st.text(min_size=1), st.floats(0, 1), min_size=1, max_size=20))
def test_a_rate_of_false_discovery_is_never_below_the_chance(values):
    rates = adjusted(values)
    assert all(rates[name] >= p or math.isclose(rates[name], p) for name, p in values.items())


def evidence(*, hit, read, needed=100.0, syscalls=None):
    return [
        observation("buffer_hit_ratio", hit, "ratio"),
        replace(observation("on_cpu_s_per_transaction", 1e-3, "s/transaction"), resolution=1e-7),
        observation(NEEDED, needed),
        observation(READ, read),
        observation("read_syscalls_per_transaction", syscalls or read),
        observation("session_cpu_s_per_transaction", 1e-3, "s/transaction"),
        observation("session_cpu_wait_s_per_transaction", 1e-6, "s/transaction"),
    ]


def waits(committed, *, read_s, cpu_s=1e-3):
    return Recordings(
        (
            WaitTime("client backend", "IO:DataFileRead", committed * read_s),
            WaitTime("client backend", "", committed * cpu_s),
        )
    )


def trial(name, number, committed, *, read_s, cpu_s=1e-3, **seen):
    made = result(name, committed, evidence=evidence(**seen), number=number)
    return replace(made, recordings=waits(committed, read_s=read_s, cpu_s=cpu_s))


def cache_run(slow="A1"):
    results = []
    for number, jitter in enumerate((0.99, 1.0, 1.01), start=1):
        fast = {"hit": 0.99, "read": 1 * jitter, "read_s": 1e-4 * jitter}
        bare = {"hit": 0.5, "read": 50 * jitter, "read_s": 5e-3 * jitter}
        one, other = (bare, fast) if slow == "A0" else (fast, bare)
        commits = (10_000, 60_000) if slow == "A0" else (60_000, 10_000)
        results.append(trial("A0", 2 * number - 1, round(commits[0] * jitter), **one))
        results.append(trial("A1", 2 * number, round(commits[1] * jitter), **other))
    return find(run_of([rung("A0"), rung("A1")], results))


def test_a_cache_that_is_too_small_is_named_with_its_share():
    found = cache_run().rungs[1].get(MechanismsFinding)
    (named,) = found.named
    assert named.name == "cache misses"
    assert named.share == pytest.approx(1.0, abs=0.01)
    assert named.share_low is not None
    assert named.share_low <= named.share
    assert named.places == ("reading blocks",)
    assert found.added_s == pytest.approx(4.9e-3, rel=0.02)
    words = mechanisms_sentence(found)
    assert words.startswith("Each transaction takes 4.9 ms longer than on A0: 100 %")
    assert "cache misses" in words


def test_the_range_of_a_share_holds_the_share_where_no_pair_has_it():
    """Over all trials processors took less on the slower side, so that reading is the whole; in no pair it is just that."""
    results = []
    for number, (fast_cpu_s, slow_cpu_s, fast_commits) in enumerate(
        ((1e-3, 1e-3, 10_000), (9e-3, 1e-3, 60_000), (9e-3, 12e-3, 60_000)), start=1
    ):
        fast = {"hit": 0.99, "read": 1, "read_s": 1e-4, "cpu_s": fast_cpu_s}
        bare = {"hit": 0.5, "read": 50, "read_s": 5e-3, "cpu_s": slow_cpu_s}
        results.append(trial("A0", 2 * number - 1, fast_commits, **fast))
        results.append(trial("A1", 2 * number, 1_000, **bare))
    found = find(run_of([rung("A0"), rung("A1")], results)).rungs[1].get(MechanismsFinding)
    [named] = found.named
    assert named.share_low < named.share <= named.share_high


def test_a_rung_whose_step_may_be_noise_is_explained_against_the_baseline():
    results = []
    for number, jitter in enumerate((0.98, 1.0, 1.02), start=1):
        fast = {"hit": 0.99, "read": 1 * jitter, "read_s": 1e-4 * jitter}
        bare = {"hit": 0.5, "read": 50 * jitter, "read_s": 5e-3 * jitter}
        results.append(trial("A0", 3 * number - 2, round(60_000 * jitter), **fast))
        results.append(trial("A1", 3 * number - 1, round(10_000 * jitter), **bare))
        results.append(trial("A2", 3 * number, round(10_000 / jitter), **bare))
    rungs = find(run_of([rung("A0"), rung("A1"), rung("A2")], results)).rungs
    assert rungs[2].to_previous.verdict is Verdict.INCONCLUSIVE
    found = rungs[2].get(MechanismsFinding)
    assert ([one.name for one in found.named], found.reference) == (["cache misses"], "A0")
    assert "longer than on A0: 100 %" in mechanisms_sentence(found)
    assert rungs[1].get(MechanismsFinding).reference == "A0"


def test_a_gain_is_the_same_mechanism_that_fell_away():
    found = cache_run(slow="A0").rungs[1].get(MechanismsFinding)
    assert found.is_gain
    assert [one.name for one in found.named] == ["cache misses"]
    assert "saved on cache misses" in mechanisms_sentence(found)


@pytest.mark.parametrize("at_end", [0.0, 80_000.0])
@pytest.mark.parametrize(
    ("hot", "named"), [(0.97, ["HOT chains"]), (0.5, ["HOT chains"]), (0.0, ["dead tuples"])]
)
def test_a_hold_that_was_let_go_before_the_windows_end_is_named_like_one_that_was_not(
    hot, named, at_end
):
    """Its dead versions were stepped over all the same: the largest age of the window tells."""
    found = held_run(hot=hot, age_at_end=at_end).rungs[1].get(MechanismsFinding)
    assert [one.name for one in found.named] == named


def test_where_no_row_is_updated_or_deleted_nothing_old_is_stepped_over():
    found = held_run(hot=None).rungs[1].get(MechanismsFinding)
    assert not found.named
    (chains,) = [one for one in found.found if one.name == "HOT chains"]
    assert [sign.has_moved for sign in chains.signs] == [True, True, False]
    assert chains.signs[-1].sentence == "hot version share: no row was updated or deleted"


def test_a_sign_with_bounds_says_what_was_seen_on_the_slower_side_alone():
    found = held_run(hot=0.97, slow="A0").rungs[1].get(MechanismsFinding)
    assert found.is_gain
    signs = {one.name: one.signs[-1] for one in found.found if one.name in OLD_VERSIONS}
    assert {name: sign.has_moved for name, sign in signs.items()} == {
        "HOT chains": True,
        "dead tuples": False,
    }
    assert {sign.sentence for sign in signs.values()} == {"hot version share: 97.0 %"}


OLD_VERSIONS = ("HOT chains", "dead tuples")


def held_run(*, hot: float | None, age_at_end: float = 80_000.0, slow: str = "A1"):
    """Return findings of three trials without and with a hold, under which statements need more blocks.

    Args:
        hot: share of HOT updates' versions among all; None: no row was updated or deleted.
    """
    fast = {"A0": "A1", "A1": "A0"}[slow]
    results = []
    for number, jitter in enumerate((0.99, 1.0, 1.01), start=1):
        for name, needed, cpu_s, age, end in (
            (fast, 10.0, 1e-3, 40.0, 0.0),
            (slow, 200.0, 2e-2, 80_000.0, age_at_end),
        ):
            committed = round(60 / cpu_s * jitter)
            seen = [
                *(
                    x
                    for x in evidence(hit=0.99, read=1.0, needed=needed * jitter)
                    if "cpu_s" not in x.name
                ),
                observation("session_cpu_s_per_transaction", cpu_s * jitter, "s/transaction"),
                observation("horizon_age_transactions", end, "count"),
                observation("horizon_age_max_transactions", age * jitter, "count"),
                replace(
                    observation("hot_version_share", 0.97 if name == fast else hot, "ratio"),
                    missing="no row was updated or deleted" if name == slow and hot is None else "",
                ),
            ]
            made = result(name, committed, evidence=seen, number=2 * number - (name == "A0"))
            spent = waits(committed, read_s=1e-5, cpu_s=cpu_s * jitter)
            results.append(replace(made, recordings=spent))
    return find(run_of([rung("A0"), rung("A1")], results))


def test_a_counter_that_moves_without_the_time_is_shown_but_not_named():
    """Reads rise, but nobody waits for them longer: the time went elsewhere."""
    results = []
    for number, jitter in enumerate((0.99, 1.0, 1.01), start=1):
        fast = trial("A0", 2 * number - 1, round(60_000 * jitter), hit=0.99, read=1, read_s=1e-4)
        slow = trial("A1", 2 * number, round(10_000 * jitter), hit=0.5, read=50, read_s=1e-4)
        idle = WaitTime("client backend", "Timeout:SpinDelay", 10_000 * 5e-3)
        slow = replace(slow, recordings=Recordings((*slow.recordings.of(WaitTime), idle)))
        results += [fast, slow]
    found = find(run_of([rung("A0"), rung("A1")], results)).rungs[1].get(MechanismsFinding)
    assert not found.named
    assert found.why_none == "those with all of their signs account for little of the added time"
    assert found.unexplained == pytest.approx(1.0, abs=0.05)
    assert "cache misses" in [one.name for one in found.found if one.is_shown]


def test_each_movement_says_whether_chance_could_bring_it_about():
    def seen(hit, queue):
        return [observation("buffer_hit_ratio", hit, "ratio"), observation("queue_length", queue)]

    results = []
    for number, wavering in enumerate((2.0, 30.0, 9.0), start=1):
        hits = 0.001 * number
        results.append(
            result("A0", 60_000, evidence=seen(0.99 + hits, wavering), number=2 * number - 1)
        )
        results.append(
            result("A1", 20_000, evidence=seen(0.5 + hits, 3 * wavering), number=2 * number)
        )
    found = find(run_of([rung("A0"), rung("A1")], results)).rungs[1]
    chances = {move.name: move.could_be_chance for move in found.get(Movements).moves}
    assert chances == {"buffer_hit_ratio": False, "queue_length": True}
    assert "queue" not in change_sentence(found)


def test_what_never_happened_on_either_side_is_no_movement_that_makes_others_look_surer():
    results = [
        result(
            name,
            60_000,
            evidence=[replace(observation("errors_per_s", 0.0, "1/s"), resolution=0.1)],
            number=number,
        )
        for number, name in enumerate(["A0", "A1"] * 3, start=1)
    ]
    (move,) = find(run_of([rung("A0"), rung("A1")], results)).rungs[1].get(Movements).moves
    assert move.chance == 1.0


def test_without_a_repeat_none_is_named_and_the_reason_is():
    results = [
        trial("A0", 1, 60_000, hit=0.99, read=1, read_s=1e-4),
        trial("A1", 2, 10_000, hit=0.5, read=50, read_s=5e-3),
    ]
    found = find(run_of([rung("A0"), rung("A1")], results)).rungs[1].get(MechanismsFinding)
    assert not found.named
    assert found.why_none.startswith("without repeated trials, chance")


def test_a_step_that_may_be_noise_has_no_mechanism():
    results = [
        trial(name, number, 60_000 + number, hit=hit, read=read, read_s=1e-4)
        for number, (name, hit, read) in enumerate([("A0", 0.99, 1), ("A1", 0.5, 50)] * 3, start=1)
    ]
    found = find(run_of([rung("A0"), rung("A1")], results)).rungs[1].get(MechanismsFinding)
    assert found.found == ()
    assert found.why_none in ("the step may be noise", "the step changed nothing")


def test_the_catalogue_claims_components_and_factors_that_exist_and_signs_that_are_observed():
    known = observation_names() | OF_LEDGER
    factors = {(one.name, factor) for one in COMPONENTS for factor in (*one.counts, "")}
    runners = (BY_SESSIONS, BY_AUTOVACUUM, BY_BACKGROUND, BY_OTHERS)
    factors |= {(name, by) for name in ("queue", "client") for by in (*runners, NEEDED)}
    assert len({one.name for one in CATALOGUE}) == len(CATALOGUE)
    for one in CATALOGUE:
        given_signs = [claim.given for claim in one.claims if claim.given is not None]
        for sign in (*one.signs, *given_signs):
            assert sign.observation in known, f"{one.name}: {sign.observation}"
        assert {(claim.component, claim.factor) for claim in one.claims} <= factors, one.name


def commit_run(fast: Commit, slow: Commit):
    """Return what is found on the way from commits of one kind to slower ones of another."""
    results = []
    for number, jitter in enumerate((0.99, 1.0, 1.01), start=1):
        for at, (name, kind) in enumerate((("A0", fast), ("A1", slow))):
            spent = {"": 1e-3, "Client:ClientRead": 1e-4, **kind.waits}
            committed = round(60 / sum(spent.values()) / jitter)
            seen = [
                replace(
                    observation("on_cpu_s_per_transaction", 1e-3, "s/transaction"), resolution=1e-6
                ),
                observation("wal_bytes_per_transaction", 500.0 * jitter, "bytes/transaction"),
                *(
                    replace(observation(x, count * jitter), resolution=1 / committed)
                    for x, count in (
                        ("wal_writes_per_transaction", kind.writes),
                        ("wal_syncs_per_transaction", kind.syncs),
                        ("session_writes_per_transaction", 0.0),
                        ("read_syscalls_per_transaction", 1 + 10 * kind.syncs),
                    )
                ),
            ]
            made = result(name, committed, evidence=seen, number=2 * number - 1 + at)
            waits = (
                WaitTime("client backend", wait, time_s * jitter * committed)
                for wait, time_s in spent.items()
            )
            results.append(replace(made, recordings=Recordings(tuple(waits))))
    return find(run_of([rung("A0"), rung("A1")], results)).rungs[1]


@dataclass(frozen=True)
class Commit:
    """WAL writes and syncs per transaction, and seconds of sessions in waits beside their work."""

    writes: float
    syncs: float
    waits: Mapping[str, float]


ASYNCHRONOUS = Commit(0.003, 0.003, {})
SYNCED = Commit(0.8, 0.8, {"IO:WalSync": 2e-3, "LWLock:WALWrite": 3e-3, "Lock:transactionid": 5e-5})


@pytest.mark.parametrize(
    ("fast", "slow", "mechanism", "least_share"),
    [
        (ASYNCHRONOUS, SYNCED, "synchronous commits", 0.95),
        # fsync = off: as many writes, of which none is synced.
        (Commit(0.8, 0.0, {"IO:WalWrite": 2e-5}), SYNCED, "synchronous commits", 0.95),
        # The sync itself is slower: the device, or wal_sync_method.
        (
            SYNCED,
            Commit(0.7, 0.7, {"IO:WalSync": 2e-2, "LWLock:WALWrite": 3e-2}),
            "WAL sync",
            0.95,
        ),
        (
            SYNCED,
            Commit(0.3, 0.3, {"IO:WalSync": 1e-3, "LWLock:WALWrite": 9e-3}),
            "group commit",
            0.95,
        ),
        (
            SYNCED,
            Commit(0.8, 0.8, {**SYNCED.waits, "IPC:SyncRep": 1e-2}),
            "synchronous replication",
            0.95,
        ),
    ],
    ids=["synchronous_commit", "fsync", "device", "commit_delay", "standby"],
)
def test_a_slower_commit_path_is_named_by_what_makes_it_slower(fast, slow, mechanism, least_share):
    for before, after in ((fast, slow), (slow, fast)):
        found = commit_run(before, after)
        (named,) = found.get(MechanismsFinding).named
        assert named.name == mechanism
        assert named.share >= least_share


def test_time_and_mechanisms_speak_of_the_same_seconds():
    found = commit_run(SYNCED, ASYNCHRONOUS)
    why, where = mechanisms_sentence(found.get(MechanismsFinding)), time_sentence(found)
    saved, _, rest = why.partition(" less than on A0: ")
    assert saved == "Each transaction takes 5.05 ms"
    assert where == f"{saved} less than on A0: nearly all of it writing WAL."
    assert rest.startswith("100 % saved on synchronous commits") or "99 %" in rest


def test_a_session_that_is_woken_more_often_copies_no_blocks():
    found = commit_run(ASYNCHRONOUS, SYNCED).get(MechanismsFinding)
    (reads,) = [one for one in found.found if one.name == "read system calls"]
    assert [sign.has_moved for sign in reads.signs] == [True, False]

"""Claims that an experiment states, beside the rates that its rungs carry: a case for each answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis_runs import LOAD, observation, result, run_of, rung, setting, three_of
from pgdrag.errors import ExperimentError
from pgdrag.experiment import parse_experiment
from pgdrag.findings.claim_kinds.analysis import AnsweredClaim, StatedClaims
from pgdrag.findings.claim_kinds.bound import BoundClaim
from pgdrag.findings.claim_kinds.observation import ObservationClaim
from pgdrag.findings.claim_kinds.order import OrderClaim
from pgdrag.findings.claim_kinds.outcome import OutcomeClaim
from pgdrag.findings.claim_kinds.share import ShareClaim
from pgdrag.findings.claim_kinds.slowdown import SlowdownClaim
from pgdrag.findings.every_claim import every_claim
from pgdrag.findings.find import find
from pgdrag.model import Claim, Outcome, Source
from pgdrag.model.claims import Answer, StatedClaim, StoredClaim, UnknownClaim, all_claims
from pgdrag.model.measurement import Counts
from pgdrag.report.document import Note, Table
from pgdrag.report.sections.answer import AnswerSection
from pgdrag.report.sections.claims import ClaimsSection
from pgdrag.testing.conformance_claims import ClaimConformance

R, P, N, UNSURE, U = (
    Answer.REPRODUCED,
    Answer.PARTLY,
    Answer.NOT_REPRODUCED,
    Answer.INCONCLUSIVE,
    Answer.UNTESTABLE,
)
EIGHT = [setting("shared_buffers", "8MB")]


class TestEveryClaim(ClaimConformance):
    @pytest.fixture(params=all_claims().values(), ids=all_claims().keys())
    def kind(self, request: pytest.FixtureRequest) -> type[StatedClaim]:
        kind: type[StatedClaim] = request.param
        return kind


def stated(run, *claims, sources=()):
    study = replace(run.study, claims=claims, sources=dict.fromkeys(sources, Source("a talk")))
    found = find(replace(run, study=study))
    return found, found.get(StatedClaims).claims


def answered(run, claim, **more) -> AnsweredClaim:
    _, (one,) = stated(run, claim, **more)
    return one


def ladder(tps=(7000, 1000), *, seen=None, name="buffer_hit_ratio", unit="ratio"):
    """Make a run of A0 and A1, each three times, that saw these values of an observation."""
    rungs = [rung("A0", 7000.0), rung("A1", 1000.0, added=EIGHT)]
    results = [*three_of("A0", tps[0] * 60), *three_of("A1", tps[1] * 60)]
    if seen is not None:
        evidence = {
            of: [observation(name, value, unit, resolution=1e-4)]
            for of, value in zip(("A0", "A1"), seen, strict=True)
        }
        results = [replace(x, evidence=tuple(evidence[x.trial.treatment.name])) for x in results]
    return run_of(rungs, results)


def of_hits(**keys):
    return ObservationClaim(text="x", at="A1", of="buffer_hit_ratio", **keys)


@pytest.mark.parametrize(
    ("keys", "seen", "expected"),
    [
        ({"value": 0.7052, "than": "A0"}, (0.999, 0.70), R),
        ({"value": 0.7052, "than": "A0"}, (0.999, 0.95), P),  # it fell, but by far less
        ({"value": 0.7052, "than": "A0"}, (0.95, 0.999), N),  # it rose
        ({"value": 0.7052}, (0.999, 0.95), N),
        ({"value": 0.999}, (0.999, 0.9945), R),  # less than a percentage point
        ({"value": 0.999}, (0.999, 0.985), N),
        ({"at_most": 0.01}, (0.9, 0.005), R),
        ({"at_most": 0.01}, (0.9, 0.015), P),
        ({"at_most": 0.01}, (0.9, 0.5), N),
        ({"at_least": 0.5}, (0.9, 0.6), R),
        ({"direction": "down", "than": "A0"}, (0.9, 0.5), R),
        ({"direction": "up", "than": "A0"}, (0.9, 0.5), N),
        ({"direction": "unmoved", "than": "A0"}, (0.9, 0.9), R),
        ({"direction": "unmoved", "than": "A0"}, (0.9, 0.5), N),
        ({"direction": "down", "than": "A0"}, (0.9, 0.9), N),
        ({"value": 0.7}, (0.9, None), U),
    ],
)
def test_a_published_share(keys, seen, expected):
    assert answered(ladder(seen=seen), of_hits(**keys)).answer is expected


@pytest.mark.parametrize(
    ("times", "seen", "expected"),
    [(300, (1.0, 250.0), R), (300, (1.0, 20.0), P), (300, (1.0, 1.0), N), (300, (20.0, 1.0), N)],
)
def test_a_published_ratio_of_something_observed(times, seen, expected):
    run = ladder(seen=seen, name="read_syscalls_per_s", unit="1/s")
    claim = ObservationClaim(text="x", at="A1", than="A0", of="read_syscalls_per_s", times=times)
    assert answered(run, claim).answer is expected


def test_what_trials_of_one_treatment_differ_by_answers_nothing():
    run = ladder(seen=(1.0, 1.0), name="read_syscalls_per_s", unit="1/s")
    noisy = [
        replace(x, evidence=(observation("read_syscalls_per_s", value, resolution=1e-4),))
        for x, value in zip(run.results, (1.0, 9.0, 30.0, 2.0, 20.0, 60.0), strict=True)
    ]
    claim = ObservationClaim(text="x", at="A1", than="A0", of="read_syscalls_per_s", times=2)
    assert answered(replace(run, results=tuple(noisy)), claim).answer is UNSURE


def test_found_has_the_words_of_the_movement_and_the_reason_stands_apart():
    one = answered(ladder(seen=(0.999, 0.70)), of_hits(value=0.7052, than="A0"))
    assert one.found == "buffer hit ratio fell from 99.9 % to 70.0 %"
    assert one.why == "within a factor of 2"


@pytest.mark.parametrize(
    ("times", "expected"), [(7, R), (42_000, P), (1 / 7, N), (1.0, N), (3.6, R), (3.4, P)]
)
def test_a_headline_ratio(times, expected):
    claim = SlowdownClaim(text="x", at="A1", than="A0", times=times)
    assert answered(ladder(), claim).answer is expected


def test_few_published_commits_have_an_interval_of_their_own():
    """11 commits in 120 s are 0.046 to 0.164 a second: a ratio of 43,000 to 155,000, and no point."""
    counted = {"commits": 11, "within_s": 120, "than_tps": 7082}
    run = ladder((7000, 7000 / 43_000))
    at_the_bound = answered(run, SlowdownClaim(text="x", at="A1", than="A0", **counted))
    assert at_the_bound.answer is R
    assert at_the_bound.why.endswith("(11 commits are 43,178× to 154,765× slower)")
    beyond = SlowdownClaim(
        text="x", at="A1", than="A0", **counted | {"commits": 1100, "within_s": 120}
    )
    assert answered(run, beyond).answer is P


def test_a_ratio_of_two_rungs_neither_of_which_is_the_baseline():
    rungs = [rung("A0"), rung("A1", added=EIGHT), rung("A2", added=[setting("fsync", "off")])]
    trials = [
        x for name, tps in (("A0", 100), ("A1", 900), ("A2", 300)) for x in three_of(name, tps * 60)
    ]
    run = run_of(rungs, trials, design="one-at-a-time")
    assert answered(run, SlowdownClaim(text="x", at="A2", than="A1", times=3)).answer is R
    assert answered(run, OrderClaim(text="x", order=["A1", "A2", "A0"])).answer is R
    assert answered(run, OrderClaim(text="x", order=["A2", "A1"])).answer is N
    assert answered(run, OrderClaim(text="x", order=["A1", "A0", "A2"])).answer is P


def test_rungs_that_do_not_differ_have_no_order():
    run = ladder((1000, 1000))
    assert answered(run, OrderClaim(text="x", order=["A0", "A1"])).answer is UNSURE


@pytest.mark.parametrize(
    ("outcome", "claimed", "expected"),
    [
        (Outcome.DID_NOT_START, "fails", R),
        (Outcome.CRASHED, "fails", R),
        (Outcome.CRASHED, "did not start", N),
        (Outcome.MEASURED, "fails", N),
        (Outcome.MEASURED, "measured", R),
        (Outcome.INVALID, "fails", U),
    ],
)
def test_how_a_rung_ends(outcome, claimed, expected):
    commits = 100 if outcome is Outcome.MEASURED else None
    bad = result("A1", commits, outcome=outcome, reason="no unpinned buffers available")
    bad = replace(bad, trial=replace(bad.trial, treatment=rung("A1", added=EIGHT).treatment))
    run = run_of([rung("A0"), rung("A1", added=EIGHT)], [*three_of("A0", 900), bad])
    assert answered(run, OutcomeClaim(text="x", at="A1", outcome=claimed)).answer is expected
    if expected is R and claimed == "fails":
        wanted = {"text": "x", "at": "A1", "outcome": "fails"}
        assert answered(run, OutcomeClaim(**wanted, message="No Unpinned")).answer is R
        assert answered(run, OutcomeClaim(**wanted, message="out of memory")).answer is P


def test_a_rung_where_some_transactions_fail_as_published_and_others_commit_is_partly_so():
    one = result("A1", 100)
    window = replace(
        one.measurement,
        transactions={"payment": Counts(200, 100, failed=100, failed_by_sqlstate={"53000": 100})},
        errors=(("payment", "53000", "no unpinned buffers available", 100),),
    )
    trial = replace(one.trial, treatment=rung("A1", added=EIGHT).treatment)
    one = replace(one, measurement=window, trial=trial)
    run = run_of([rung("A0"), rung("A1", added=EIGHT)], [*three_of("A0", 900), one])
    wanted = {"text": "x", "at": "A1", "outcome": "fails"}
    found = answered(run, OutcomeClaim(**wanted, message="no unpinned buffers"))
    assert (found.answer, "50 % of the transactions fail" in found.found) == (P, True)
    assert answered(run, OutcomeClaim(**wanted)).answer is N


def test_only_a_search_for_a_boundary_answers_one():
    one = answered(ladder(), BoundClaim(text="x", setting="shared_buffers", least="2MB"))
    assert (one.answer, 'the design "boundary" does' in one.why) == (U, True)


def test_steps_are_credited_with_their_part_of_the_whole():
    rungs = [rung("A0"), rung("A1", added=EIGHT), rung("A2", added=[setting("fsync", "off")])]
    trials = [
        x for name, tps in (("A0", 900), ("A1", 100), ("A2", 90)) for x in three_of(name, tps * 60)
    ]
    run = run_of(rungs, trials)
    assert answered(run, ShareClaim(text="x", steps=["A1"])).answer is R
    assert answered(run, ShareClaim(text="x", steps=["A2"])).answer is N
    assert answered(run, ShareClaim(text="x", steps=["A1", "A2"], at_least=0.99)).answer is UNSURE
    turned = run_of(rungs, trials, design="one-at-a-time")
    assert answered(turned, ShareClaim(text="x", steps=["A1"])).answer is U


def test_a_moment_hours_away_is_untestable_and_says_how_long_a_window_is():
    one = answered(ladder(seen=(0.9, 0.7)), of_hits(value=0.7, after_s=3600.0))
    assert one.answer is U
    assert one.why == "published for 1 h of load, and a window here takes 1 min"


def test_rates_of_two_sources_are_not_divided_by_each_other():
    run = ladder()
    talk = replace(run.study.rungs[0], claim=Claim(5000.0, source="talk"))
    study = replace(run.study, rungs=(talk, run.study.rungs[1]), sources={"talk": Source("a talk")})
    assert every_claim(find(replace(run, study=study))) == ()
    assert [x.answer for x in every_claim(find(run))] == [R]


def notes(found) -> Note:
    return next(x for x in AnswerSection().blocks(found) if isinstance(x, Note))


def test_the_headline_is_the_claim_of_the_title_and_not_the_last_rungs():
    claim = SlowdownClaim(text="42 times slower", headline=True, at="A1", than="A0", times=42)
    found, _ = stated(ladder(), claim)
    assert "Published: 42 times slower." in found.answer
    note = notes(found)
    assert note.title.endswith("partly")
    assert note.texts[0].startswith("42 times slower: found 7× slower")
    assert not any("Up to A1" in text for text in note.texts)  # the title's claim is asked about
    assert every_claim(found)[0].is_headline


def test_rungs_that_each_stand_alone_are_never_up_to_one():
    """A one-at-a-time design has no rung that stands upon the others."""
    run = ladder()
    found = find(replace(run, study=run.study.with_design("one-at-a-time")))
    assert not any("Up to" in text for text in notes(found).texts)


def test_a_claim_of_a_plug_in_that_is_gone_is_kept_and_untestable():
    from pydantic import TypeAdapter

    kept = TypeAdapter(StoredClaim).validate_python(
        {"kind": "weather", "text": "it rains", "mm": 3}
    )
    assert isinstance(kept, UnknownClaim)
    one = answered(ladder(), kept)
    assert (one.answer, one.text) == (U, "it rains")
    assert "weather" in one.why


TEXT = """\
pgdrag = 1
name = "small"
[workload]
kind = "tpcc"
[sources.talk]
title = "a talk"
[baseline]
name = "A0"
claim = { tps = 100, source = "talk" }
[[rungs]]
name = "A1"
setting = { shared_buffers = "8MB" }
[[claims]]
kind = "slowdown"
text = "ten times slower"
at = "A1"
than = "A0"
times = 10
source = "talk"
[scales.demo]
"""


SLOWDOWN = TEXT[TEXT.index('kind = "slowdown"') : TEXT.index('source = "talk"\n[scales')]


def test_a_file_states_claims_and_names_their_sources():
    study = parse_experiment(TEXT, Path("x.toml")).study("demo")
    assert study.claims == (
        SlowdownClaim(text="ten times slower", at="A1", than="A0", times=10, source="talk"),
    )
    assert study.rungs[0].claim.source == "talk"
    assert study.sources["talk"].words == "a talk"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "slowdown"', 'kind = "slowdwn"', 'unknown kind of claim "slowdwn"'),
        ('at = "A1"', 'at = "A9"', 'unknown rung "A9"'),
        ('10\nsource = "talk"', '10\nsource = "tlk"', 'unknown source "tlk"'),
        ("times = 10", "tmes = 10", 'unknown key "tmes" in [[claims]]'),
        ("times = 10", "commits = 3", "needs times, or commits, within_s and than_tps"),
        (
            SLOWDOWN,
            'kind = "course"\ntext = "x"\nat = "A1"\ntrend = "steady"\nfrom_tps = 3\n',
            "trend has no from_tps, from_s and to_tps",
        ),
        (
            SLOWDOWN,
            'kind = "course"\ntext = "x"\nat = "A1"\nfrom_tps = 3\nfrom_s = 9\nto_tps = 1\nafter_s = 5\n',
            "needs a from_s before after_s",
        ),
        ('text = "ten times slower"\n', "", 'missing key "text" in [[claims]]'),
        ('kind = "slowdown"\n', "", 'missing key "kind" in [[claims]]'),
        ('[[claims]]\nkind = "slowdown"', "[claims]\nx = 1", '"claims" must be an array'),
    ],
)
def test_mistakes_in_claims_are_told_with_their_line(old, new, message):
    assert old in TEXT
    with pytest.raises(ExperimentError) as caught:
        parse_experiment(TEXT.replace(old, new, 1), Path("x.toml"))
    told = f"{caught.value.message} {caught.value.detail or ''}"
    assert message in told
    assert caught.value.line


def test_observations_of_claims_must_exist():
    text = TEXT.replace('kind = "slowdown"', 'kind = "observation"\nof = "hit_ratio"')
    with pytest.raises(ExperimentError, match='unknown observation "hit_ratio"'):
        parse_experiment(text, Path("x.toml"))


def test_two_headlines_are_one_too_many():
    claim = TEXT[TEXT.index("[[claims]]") : TEXT.index("[scales")] + "headline = true\n"
    text = TEXT.replace("[scales", f"headline = true\n{claim}[scales")
    with pytest.raises(ExperimentError, match="2 claims are headlines"):
        parse_experiment(text, Path("x.toml"))


def test_a_window_of_the_load_is_enough_before_anything_ran():
    run = run_of([rung("A0"), rung("A1", added=EIGHT)], [], status="running")
    one = answered(run, of_hits(value=0.7, after_s=LOAD.measure_s))
    assert (one.answer, one.why) == (Answer.NOT_RUN, "A1: not run yet")


def test_a_run_ends_with_what_it_can_answer_and_shows_the_rest_on_request():
    headline = SlowdownClaim(text="42 times slower", headline=True, at="A1", than="A0", times=42)
    found, _ = stated(ladder(), headline, of_hits(value=0.7, after_s=3600.0), sources=["a talk"])
    end, whole = (blocks(found) for blocks in (ClaimsSection().ending, ClaimsSection().brief))
    shown, everything = (
        [row[1].text for block in part if isinstance(block, Table) for row in block.rows]
        for part in (end, whole)
    )
    assert shown == ["42 times slower"]
    assert len(everything) == 2
    assert "1 untestable here" in end[0].text

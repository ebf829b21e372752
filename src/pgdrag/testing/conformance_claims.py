"""What must every kind of claim do? A suite for pytest.

Subclass it in a test module; it asks for one fixture::

    class TestEveryClaim(ClaimConformance):
        @pytest.fixture(params=all_claims().values(), ids=all_claims().keys())
        def kind(self, request): ...                     # type[StatedClaim]

Nothing here needs pytest to be installed.
"""

from __future__ import annotations

import re

from pydantic import TypeAdapter

from pgdrag.findings.claim_kinds.analysis import StatedClaims
from pgdrag.findings.find import find
from pgdrag.model import Host, Level, Rung, RunRecord, Source, Study, Treatment, WorkloadSpec
from pgdrag.model.claims import Answer, StatedClaim, StoredClaim, all_claims
from pgdrag.model.load import LoadProfile

_STORED: TypeAdapter[StatedClaim] = TypeAdapter(StoredClaim)


class ClaimConformance:
    """Claims about one kind of claim, made with its example."""

    def test_it_says_what_it_is(self, kind: type[StatedClaim]) -> None:
        assert re.fullmatch(r"[a-z][a-z_]*", kind.name)
        assert kind.summary
        assert "\n" not in kind.summary
        assert all_claims()[kind.name] is kind

    def test_every_key_is_described(self, kind: type[StatedClaim]) -> None:
        for name, one in kind.model_json_schema()["properties"].items():
            assert one.get("description"), name

    def test_a_journal_gives_back_what_it_was_given(self, kind: type[StatedClaim]) -> None:
        claim = _claim(kind)
        assert _STORED.validate_json(_STORED.dump_json(claim)) == claim

    def test_it_names_its_rungs(self, kind: type[StatedClaim]) -> None:
        assert set(_claim(kind).rungs) <= {"A", "B"}

    def test_before_a_trial_nothing_is_answered(self, kind: type[StatedClaim]) -> None:
        found = find(_run(_claim(kind))).get(StatedClaims)
        assert found is not None
        (claim,) = found.claims
        assert claim.answer is (Answer.NOT_RUN if kind.is_answerable else Answer.UNTESTABLE)
        assert claim.why
        assert not claim.found

    def test_a_moment_that_no_window_reaches_is_untestable(self, kind: type[StatedClaim]) -> None:
        found = find(_run(_claim(kind, after_s=3600.0))).get(StatedClaims)
        assert found is not None
        (claim,) = found.claims
        assert claim.answer is Answer.UNTESTABLE
        assert "1 h" in claim.why


def _claim(kind: type[StatedClaim], **more: object) -> StatedClaim:
    return kind.model_validate({"text": "as published", **kind.example, **more})


def _run(claim: StatedClaim) -> RunRecord:
    level = Level("setting", "work_mem", "8MB")
    rungs = (Rung("A", "", Treatment("A")), Rung("B", "", Treatment("B", (level,)), (level,)))
    workload = WorkloadSpec("tpcc")
    load = LoadProfile(connections=1, warm_up_s=0, measure_s=10, budget_s=10)
    study = Study(
        *("example", "", "", "demo", "ladder", rungs, Source(), workload, load, 1), claims=(claim,)
    )
    host = Host("none", 1, 1, "none", "none")
    return RunRecord("example", study, host, "18.6", "0", 1, 0.0, None, "running", ())

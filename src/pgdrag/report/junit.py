"""The run as JUnit XML, which every continuous integration server reads: what failed, and why.

A test case is the run itself (is it complete?), the limit that it was given, a published claim, or a treatment of the
study. What was decided neither way (inconclusive, untestable here, not run) is skipped, not passed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from pgdrag.english import as_sentence, without_controls
from pgdrag.findings.every_claim import every_claim
from pgdrag.findings.values import Answer, Findings, Gate, TreatmentFinding
from pgdrag.model import Outcome
from pgdrag.report.cells import rate_cell, slowdown_cell
from pgdrag.report.terminal import terminal_text

State = Literal["passed", "failure", "error", "skipped"]

_GATES: dict[Gate, State] = {
    Gate.PASS: "passed",
    Gate.FAIL: "failure",
    Gate.INCONCLUSIVE: "skipped",
}
_ANSWERS: dict[Answer, State] = {
    Answer.REPRODUCED: "passed",
    Answer.NOT_REPRODUCED: "failure",
    Answer.WRONG: "failure",
}
_OUTCOMES: dict[Outcome, State] = {
    Outcome.MEASURED: "passed",
    Outcome.INERT: "passed",
    Outcome.DID_NOT_START: "failure",
    Outcome.CRASHED: "failure",
    Outcome.STALLED: "failure",
    Outcome.INVALID: "error",
    Outcome.UNTESTABLE: "skipped",
}
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class _Case:
    """One test case.

    Attributes:
        group: what it is about: "run", "limit", "claim" or "treatment".
        kind: how it ended, in the words of pgdrag.
        message: what failed, or why it was skipped; of what passed, what was found.
        output: further text.
    """

    group: str
    name: str
    state: State
    kind: str
    message: str
    took_s: float = 0.0
    output: str = ""


def render_junit(findings: Findings) -> str:
    """Return one test suite, valid against the schemas of Jenkins and Surefire."""
    run, cases = findings.run, list(_cases(findings))
    counts = {state: sum(one.state == state for one in cases) for state in _STATES}
    suite = Element(
        "testsuite",
        {
            "name": f"pgdrag {_xml(run.study.name)}",
            "tests": str(len(cases)),
            "failures": str(counts["failure"]),
            "errors": str(counts["error"]),
            "skipped": str(counts["skipped"]),
            "time": f"{sum(one.took_s for one in cases):.3f}",
        },
    )
    properties = SubElement(suite, "properties")
    for name, value in _properties(findings):
        SubElement(properties, "property", {"name": name, "value": _xml(value)})
    for one in cases:
        _add(suite, one, run.study.name)
    indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(suite, encoding="unicode")}\n'


_STATES: tuple[State, ...] = ("failure", "error", "skipped")


def _add(suite: Element, one: _Case, study: str) -> None:
    case = SubElement(
        suite,
        "testcase",
        {
            "name": _xml(one.name),
            "classname": _xml(f"pgdrag.{study}.{one.group}"),
            "time": f"{one.took_s:.3f}",
        },
    )
    output = one.output
    if one.state == "passed":
        output = "\n".join(filter(None, (one.message, output)))
    else:
        message = one.message or one.kind
        attributes = {"message": _xml(message)}
        # Surefire's schema has no kinds of what was skipped.
        if one.state != "skipped":
            attributes["type"] = one.kind
        SubElement(case, one.state, attributes).text = _xml(message)
    if output:
        SubElement(case, "system-out").text = _xml(output)


def _properties(findings: Findings) -> Iterator[tuple[str, str]]:
    run = findings.run
    yield "run", run.run_id
    yield "started", datetime.fromtimestamp(run.started_unix_s, UTC).isoformat(timespec="seconds")
    yield "scale", run.study.scale
    yield "postgresql", run.server_version
    yield "pgdrag", run.pgdrag_version
    yield "seed", str(run.seed)
    yield "processor", run.host.cpu_model
    yield "processors", str(run.host.cpu_count)
    yield "memory_bytes", str(run.host.memory_bytes)
    yield "kernel", run.host.kernel
    yield "file_system", run.host.file_system


def _cases(findings: Findings) -> Iterator[_Case]:
    run, found = findings.run, findings.found
    trials = f"{len(run.results)} of {run.planned_trials or len(run.results)} trials are done"
    state: State = "passed" if run.status == "done" else "error"
    words = f"{run.status}: {trials}"
    yield _Case(
        "run", "the run is complete", state, run.status, words, output=terminal_text(findings)
    )
    if found is not None and found.decision is not None:
        gate = found.decision
        yield _Case("limit", found.bound, _GATES[gate], gate.value, findings.answer)
    for claim in every_claim(findings):
        words = f"{claim.answer.value}: {claim.found or claim.why}"
        if claim.found and claim.why:
            words = f"{words} ({claim.why})"
        state = _ANSWERS.get(claim.answer, "skipped")
        yield _Case("claim", claim.key, state, claim.answer.value, words)
    named = {rung.name for rung in run.study.rungs}
    for rung in findings.rungs:
        if rung.rung.name in named:
            yield _of_treatment(findings, rung)


def _of_treatment(findings: Findings, rung: TreatmentFinding) -> _Case:
    state = _OUTCOMES[rung.outcome] if rung.trials else "skipped"
    if state == "passed":
        rate, slowdown = rate_cell(findings, rung), slowdown_cell(rung.to_baseline)
        words = f"{rate.text} ({rate.note})" if rate.note else rate.text
        if rung.to_baseline is not None:
            words += (
                f"; × slower than {findings.rungs[0].rung.name}: {slowdown.text} ({slowdown.note})"
            )
    else:
        words = as_sentence(": ".join(filter(None, (rung.state, rung.reason))))
    took_s = sum(
        sum(result.phases_s.values())
        for result in findings.run.results
        if result.trial.treatment.name == rung.rung.treatment.name
    )
    return _Case("treatment", rung.rung.heading, state, rung.state, words, took_s)


def _xml(text: str) -> str:
    """Return a text without what XML has no way to write."""
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", without_controls(text))

"""How does a search read? The answer in a few sentences, its warnings, and the file that it recommends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median

from pgdrag.designs.search.findings import LineFinding, SearchFinding
from pgdrag.designs.search.parameters import way
from pgdrag.designs.search.procedure import Stage
from pgdrag.english import counted, listed
from pgdrag.findings.values import FoundConfiguration, Interval
from pgdrag.findings.wording import inverse
from pgdrag.units import format_interval, format_ratio

_SETTING = "setting"
_MOST_NAMED = 6


def gain_words(found: SearchFinding, gain: Interval) -> str:
    """Return `1.31× faster (1.28× to 1.34×)`, in the way that was searched for; a loss the other way round."""
    low, center, high = gain.low, gain.center, gain.high
    goal = found.goal
    if center < 1:
        low, center, high = inverse(high), inverse(center), inverse(low)
        goal = "minimize" if goal == "maximize" else "maximize"
    number, _, interval = format_interval(low, center, high).partition(" ")
    return f"{number} {way(goal)} {interval}"


def answer(found: SearchFinding) -> str:
    """Return the question answered."""
    if not found.lines:
        return _nothing(found)
    settings = _lines_words(found.lines)
    if found.proved is None:
        if found.claimed is None:
            return f"No answer yet: {found.stage}."
        return f"By short trials {gain_words(found, found.claimed)} with {settings}; not proved on fresh clusters yet."
    proof = gain_words(found, found.proved).replace(" (", " (95 % CI ", 1)
    text = f"{proof} with {settings}, on {counted(len(found.redeployments), 'fresh cluster')}."
    for rival in found.rivals:
        text += f" Against {rival.name}: {gain_words(found, rival.beaten_by)}."
    if not found.proved.excludes_one:
        text += " That is no significant difference."
    return text


def _nothing(found: SearchFinding) -> str:
    if found.stage is not Stage.DONE:
        return f"No answer yet: {found.stage}, {found.trials} of {found.budget} short trials."
    if found.failed and not found.course:
        return f"None found: none of {counted(found.trials, 'trial')} ran."
    return f"No configuration {way(found.goal)} than the baseline was found in {counted(found.trials, 'short trial')}."


def _lines_words(lines: tuple[LineFinding, ...]) -> str:
    shown = [f"{one.name} = {one.value}" for one in lines[:_MOST_NAMED]]
    if len(lines) > _MOST_NAMED:
        shown.append(f"{len(lines) - _MOST_NAMED} more")
    return listed(shown)


def warnings(found: SearchFinding) -> Iterator[str]:
    """Yield what to bear in mind."""
    if found.proved is not None and found.claimed is not None:
        claim, proof = found.claimed, found.proved
        if proof.high < claim.low or proof.low > claim.high:
            yield (
                f"the short trials claimed {gain_words(found, claim)}, and the fresh clusters show "
                f"{gain_words(found, proof)}: longer trials see what short ones do not, such as checkpoints"
            )
    if found.failed:
        yield (
            f"{counted(found.failed, 'trial')} did not start, crashed, stalled, or had a value that is not in force; "
            "what they have in common was avoided from then on"
        )
    weak = [one.name for one in found.lines if one.brings is not None and one.brings.low <= 1]
    if weak:
        yield (
            f"leaving out {listed(weak)} alone makes no significant difference; try the file without "
            "(pgdrag compare)"
        )


def configuration(found: SearchFinding, kinds: Mapping[str, str]) -> FoundConfiguration:
    """Return the file, each line with what it brings here.

    Args:
        kinds: the kind of factor of each line, by its name.
    """
    header = [found.answer]
    if found.claimed is not None and found.proved is not None:
        header.append(
            f"The search claimed {gain_words(found, found.claimed)}; fresh clusters proved "
            f"{gain_words(found, found.proved)}."
        )
    if found.redeployments:
        low, high = min(found.redeployments), max(found.redeployments)
        header.append(
            f"By cluster: {format_ratio(low)} to {format_ratio(high)}, median {format_ratio(median(found.redeployments))}."
        )
    settings = [one for one in found.lines if kinds.get(one.name) == _SETTING]
    return FoundConfiguration(
        settings={one.name: one.value for one in settings},
        others=tuple(f"{x.name} = {x.value}" for x in found.lines if kinds.get(x.name) != _SETTING),
        comments={one.name: _comment(found, one) for one in settings},
        header=tuple(header),
    )


def _comment(found: SearchFinding, line: LineFinding) -> str:
    instead = f"instead of {line.start}" if line.start else "instead of the server's own value"
    if line.brings is None:
        return f"{instead}; not left out alone"
    if line.brings.excludes_one:
        return f"{gain_words(found, line.brings)} than without this line ({instead})"
    return (
        f"no significant difference to leave it out: {gain_words(found, line.brings)} ({instead})"
    )

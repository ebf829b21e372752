"""How does a search read? The answer in a few sentences, its warnings, and the file that it recommends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from pgdrag.designs.search.findings import FrontFinding, LineFinding, SearchFinding
from pgdrag.designs.search.procedure import Stage
from pgdrag.english import capital, counted, listed
from pgdrag.findings.values import FoundConfiguration, Interval
from pgdrag.findings.wording import inverse
from pgdrag.units import format_interval, format_ratio

_SETTING = "setting"
_MOST_NAMED = 6


def gain_words(found: SearchFinding, gain: Interval) -> str:
    """Return `1.31× faster (1.28× to 1.34×)`, in the way that was searched for; a loss the other way round."""
    low, center, high, way = gain.low, gain.center, gain.high, found.better
    if center < 1:
        low, center, high, way = inverse(high), inverse(center), inverse(low), found.worse
    number, _, interval = format_interval(low, center, high).partition(" ")
    return f"{number} {way} {interval}"


def answer(found: SearchFinding) -> str:
    """Return the question answered."""
    if not found.lines:
        return " ".join((_nothing(found), *_front_words(found)))
    settings = _changes_words({one.name: one.value for one in found.lines})
    if found.proved is None:
        if found.claimed is None:
            return f"No answer yet: {found.stage}."
        return f"By short trials {gain_words(found, found.claimed)} with {settings}; not proved by {found.proof_unit}s yet."
    proof = gain_words(found, found.proved).replace(" (", " (95 % CI ", 1)
    whole = "All together " if found.front else ""
    text = f"{whole}{proof} with {settings}, {proof_words(found)}."
    for rival in found.rivals:
        text += f" Against {rival.name}: {gain_words(found, rival.beaten_by)}."
    for few in found.fewest:
        words = f"{_changes_words(few.lines)} alone: {gain_words(found, few.over_rival)} than {few.rival}"
        text += f" With {words}{_enough(few.over_rival)}."
    if not found.proved.excludes_one:
        text += " That is no significant difference."
    if kept := [one for one in found.limits if one.is_kept]:
        needs = listed([f"{one.label} {one.highest} of {one.limit} at most" for one in kept])
        text += f" Within the limits: {needs}."
    return " ".join((text, *_front_words(found)))


def _enough(gain: Interval) -> str:
    """Return what a gain over a rival means for those changes alone."""
    if gain.low > 1:
        return ""
    return ", which is not enough" if gain.high < 1 else ", no significant difference"


def proof_words(found: SearchFinding) -> str:
    """Return by what the gain was proved: "by 10 fresh clusters"."""
    return f"by {counted(len(found.redeployments), found.proof_unit)}"


def _front_words(found: SearchFinding) -> Iterator[str]:
    """Yield, of several objectives, what else was found that nothing beats in all of them."""
    of_main = {one.name: one.value for one in found.lines}
    for one in found.front:
        if one.lines and one.lines != of_main and not one.is_beaten:
            yield f"{capital(one.name)}: {front_gains(found, one)}, with {front_lines(one)}."


def front_gains(found: SearchFinding, one: FrontFinding) -> str:
    """Return `throughput 1.3× better (1.2× to 1.4×) and latency-p99 1.1× worse (1× to 1.2×)`."""
    return listed([f"{name} {gain_words(found, gain)}" for name, gain in one.gains.items()])


def front_lines(one: FrontFinding) -> str:
    """Return the changes of a configuration, the first few of them named."""
    return _changes_words(one.lines)


def _changes_words(lines: Mapping[str, str]) -> str:
    return _named([f"{name} = {value}" for name, value in lines.items()])


def _nothing(found: SearchFinding) -> str:
    if found.stage is Stage.EXPLORING:
        return f"No answer yet: {found.stage}, {found.trials} of {found.budget} short trials."
    if found.stage is not Stage.DONE:
        return f"No answer yet: {found.stage}, after {counted(found.trials, 'short trial')}."
    if found.failed and not found.course:
        return f"None found: none of {counted(found.trials, 'trial')} ran."
    return f"No configuration {found.better} than the baseline was found in {counted(found.trials, 'short trial')}."


def _named(changes: Sequence[str]) -> str:
    more = len(changes) - _MOST_NAMED
    return listed([*changes[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])])


def warnings(found: SearchFinding) -> Iterator[str]:
    """Yield what to bear in mind."""
    if found.proved is not None and found.claimed is not None:
        claim, proof = found.claimed, found.proved
        if proof.high < claim.low or proof.low > claim.high:
            yield (
                f"the short trials claimed {gain_words(found, claim)}, and the {found.proof_unit}s show "
                f"{gain_words(found, proof)}: longer trials see what short ones do not, such as checkpoints"
            )
    for one in found.limits:
        if not one.is_kept:
            yield (
                f"in {found.proof_unit}s the configuration exceeds a limit: {one.label} {one.highest}, and {one.limit} is "
                "the most it may have; longer trials need more than the short ones of the search"
            )
    if found.failed:
        yield (
            f"{counted(found.failed, 'trial')} did not start, crashed, stalled, exceeded a limit, or had a value that "
            "is not in force; what they have in common was avoided from then on"
        )
    weak = [one.name for one in found.lines if one.brings is not None and one.brings.low <= 1]
    if weak:
        yield (
            f"leaving out {listed(weak)} alone makes no significant difference; try the file without "
            "(pgdrag compare)"
        )


def configuration(found: SearchFinding, kinds: Mapping[str, str]) -> FoundConfiguration:
    """Return the file, with the gain of each line here.

    Args:
        kinds: the kind of factor of each line, by its name.
    """
    header = [found.answer]
    if found.claimed is not None and found.proved is not None:
        header.append(
            f"The search claimed {gain_words(found, found.claimed)}; {found.proof_unit}s proved "
            f"{gain_words(found, found.proved)}."
        )
    if found.redeployments:
        low, high = min(found.redeployments), max(found.redeployments)
        header.append(
            f"By {found.proof_unit}: {format_ratio(low)} to {format_ratio(high)}, median {format_ratio(median(found.redeployments))}."
        )
    of_main = {one.name: one.value for one in found.lines}
    for front in found.front:
        if front.lines and front.lines != of_main:
            changes = listed([f"{name} = {value}" for name, value in front.lines.items()])
            header.append(f"{capital(front.name)}: {changes} ({front_gains(found, front)}).")
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

"""How are a twin's transactions shown? Their number in the summary, and each shape with its statements in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgdrag.english import counted, cut
from pgdrag.twins.model import Twin
from pgdrag.twins.transactions import (
    QUANTILES,
    LoggedTransactions,
    Loop,
    Parameter,
    ParameterLink,
    Spread,
    TransactionShape,
)
from pgdrag.units import format_duration, format_number, format_rate

_TOP = 5
_CUT = 100
_MEDIAN, _TAIL = QUANTILES.index(0.5), QUANTILES.index(0.99)
_MOST_TOKENS = 5
_CONCENTRATED = 0.15  # of the values in a twentieth of the column


def transactions_summary(twin: Twin) -> Iterator[str]:
    """Yield how many transactions a log showed, and the shapes that took the most time."""
    log = twin.transactions
    if log is None:
        return
    texts = _texts(twin, log)
    yield f"Log ({log.format}) of {format_duration(log.window_s)}: {counted(log.transactions, 'transaction')} of {counted(len(log.shapes), 'shape')}; their shares, those that took the most time first:"
    for shape in log.shapes[:_TOP]:
        words = " / ".join(texts[x.statement] for x in shape.steps)
        yield f"  {100 * _share(log, shape):3.0f} %  {cut(words, _CUT)}"
    yield from log.notes


def transaction_lines(twin: Twin) -> Iterator[str]:
    """Yield all that the log showed."""
    log = twin.transactions
    if log is None:
        yield "There are no transactions: no log was read."
        return
    texts = _texts(twin, log)
    yield f"Transactions in the log ({log.format}, {format_duration(log.window_s)}, {counted(log.messages, 'message')}), those that took the most time first:"
    yield from log.notes
    for shape in log.shapes:
        yield from _shape(log, shape, texts)
    if log.other_transactions:
        yield f"  {counted(log.other_transactions, 'transaction')} of other shapes"
    if log.cut_transactions:
        yield f"  {counted(log.cut_transactions, 'transaction')} without a beginning or an end in the log"
    if log.sessions is not None:
        yield f"Sessions: {log.sessions.sessions:,}, each {_numbers(log.sessions.transactions)} transactions; busy at once: {_numbers(log.sessions.at_once)}"
    if log.rate:
        rates = [x / log.rate_every_s for x in log.rate]
        yield f"Rate: {format_rate(sum(rates) / len(rates))}, {format_rate(min(rates))} to {format_rate(max(rates))} over {format_duration(log.rate_every_s)}"
    if log.errors:
        errors = (f"{code or 'unknown'} {count:,}" for code, count in log.errors.items())
        yield f"Errors by SQLSTATE: {', '.join(errors)}"
    yield "Parameters:"
    for one in log.statements:
        if one.parameters:
            yield f"  {one.number}. {counted(one.calls, 'call')}: {cut(texts[one.number], _CUT)}"
            yield from (f"     {_parameter(x)}" for x in one.parameters)


def _texts(twin: Twin, log: LoggedTransactions) -> Mapping[int, str]:
    texts = {one.number: one.text for one in twin.workload.statements}
    return texts | {one.number: one.text for one in log.statements if one.text}


def _share(log: LoggedTransactions, shape: TransactionShape) -> float:
    return shape.transactions / log.transactions if log.transactions else 0.0


def _shape(log: LoggedTransactions, shape: TransactionShape, texts: Mapping[int, str]) -> Iterator[str]:  # fmt: skip
    kind = "" if shape.is_block else ", without BEGIN"
    ending = {"commit": "", "rollback": ", rolled back", "error": ", ended by an error"}[
        shape.ending
    ]
    pause = f", after a pause of {_times(shape.pause_s)}" if shape.pause_s is not None else ""
    yield f"  {shape.number}. {100 * _share(log, shape):.1f} % ({shape.transactions:,}){kind}{ending}: {_times(shape.duration_s)}{pause}"
    loops = {one.first: one for one in shape.loops}
    for at, step in enumerate(shape.steps, start=1):
        if at in loops:
            yield f"     {_loop(loops[at])}"
        paused = f" ({format_duration(step.pause_s.mean)} before it)" if step.pause_s and step.pause_s.mean else ""  # fmt: skip
        yield f"     {at}. {cut(texts[step.statement], _CUT)}{paused}"
    for link in shape.links:
        yield f"     {_link(link)}"


def _loop(loop: Loop) -> str:
    like = f", as often as loop {loop.like}" if loop.like else ""
    steps = f"step {loop.first}" if loop.first == loop.last else f"steps {loop.first} to {loop.last}"  # fmt: skip
    mean = sum(times * share for times, share in loop.repeats)
    least, most = loop.repeats[0][0], loop.repeats[-1][0]
    return f"{steps}: {least} to {most} times, {format_number(mean)} on average{like}"


def _link(link: ParameterLink) -> str:
    source = {
        "transaction": f"${link.from_parameter} of step {link.from_step}",
        "loop": f"${link.from_parameter} of step {link.from_step} in the round of the same number",
        "round": f"${link.from_parameter} of step {link.from_step} in the round before",
        "session": f"${link.from_parameter} of step {link.from_step} of the transaction before, of shape {link.from_shape}",
    }[link.source]
    differences = link.differences
    if not differences:
        relation = "equals"
    else:
        ends = sorted({abs(differences[0]), abs(differences[-1])})
        side = "below" if differences[-1] < 0 else "above"
        relation = f"is {' to '.join(map(format_number, ends))} {side}"
    return f"${link.parameter} of step {link.step} {relation} {source} ({100 * link.share:.3g} %)"


def _parameter(one: Parameter) -> str:
    top = " / ".join(f"{100 * x:.3g}" for x in one.top_shares)
    words = f"${one.number} {one.kind}: {one.distinct:,} different of {one.seen:,}; top 1 / 10 / 100: {top} %"
    if one.null_share:
        words += f"; {100 * one.null_share:.3g} % NULL"
    if one.ascending_share > 0.5:
        words += f"; ascending ({100 * one.ascending_share:.3g} %)"
    if one.lengths is not None:
        words += f"; lengths {_numbers(one.lengths)}"
    if one.ages:
        ages = ", ".join(f"{_age(seconds)} ({share:.3g})" for seconds, share in one.ages)
        words += f"; by the program's clock: {ages}"
    if one.positions and max(one.positions) > _CONCENTRATED:
        most = max(range(len(one.positions)), key=lambda x: one.positions[x])
        words += f"; {100 * one.positions[most]:.3g} % in part {most + 1} of {len(one.positions)} of the column"
    if one.common:
        tokens = ", ".join(f"{token} ({share:.3g})" for token, share in one.common[:_MOST_TOKENS])
        words += f"; {tokens}"
    return words


def _age(seconds: float) -> str:
    return f"{format_duration(abs(seconds))} {'ago' if seconds >= 0 else 'ahead'}"


def _times(spread: Spread) -> str:
    return f"{format_duration(spread.mean)} (median {format_duration(spread.quantiles[_MEDIAN])}, 99 %: {format_duration(spread.quantiles[_TAIL])})"


def _numbers(spread: Spread) -> str:
    return f"{format_number(spread.quantiles[0])} to {format_number(spread.quantiles[-1])}, {format_number(spread.mean)} on average"

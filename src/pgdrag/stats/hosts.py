"""How fast is each host of a fleet, how noisy, and do effects differ between them?

Log throughput of a trial is taken as treatment + host + noise. A treatment that ran on several hosts tells how fast
these are; in blocks that are whole on one host its ratio to another treatment does not depend on that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pgdrag.stats.distributions import f_beyond

LEVEL = 0.01  # of what is tested in every run beside its question
_NOISIER = 2.0  # times: less than that does not matter


@dataclass(frozen=True)
class Measured:
    """Log throughput of one trial, with what it was of and where it ran."""

    treatment: object
    host: str
    log: float


@dataclass(frozen=True)
class HostFit:
    """Hosts side by side.

    Attributes:
        log_speeds: of each host, around the mean of all; 0 is as fast as the others.
        log_sds: standard deviation between trials of one treatment on it; NaN where nothing was repeated.
        p: probability of such differences in speed by chance alone.
    """

    log_speeds: Mapping[str, float]
    log_sds: Mapping[str, float]
    p: float

    @property
    def differ(self) -> bool:
        """The hosts are not equally fast."""
        return self.p < LEVEL


def fit_hosts(measured: Sequence[Measured]) -> HostFit | None:
    """Estimate how fast hosts are, by least squares on treatment + host.

    Returns:
        None where there is one host, or no treatment that ties one to another, or nothing was repeated.
    """
    hosts = sorted({one.host for one in measured})
    treatments = list(dict.fromkeys(one.treatment for one in measured))
    if len(hosts) < 2:
        return None
    places = {name: at for at, name in enumerate(treatments)}
    logs = np.array([one.log for one in measured])
    model = np.zeros((len(measured), len(treatments) + len(hosts) - 1))
    for row, one in enumerate(measured):
        model[row, places[one.treatment]] = 1.0
        if (at := hosts.index(one.host)) > 0:
            model[row, len(treatments) + at - 1] = 1.0
    rank = int(np.linalg.matrix_rank(model))
    dof = len(measured) - rank
    if rank < model.shape[1] or dof < 1:
        return None
    found, *_ = np.linalg.lstsq(model, logs, rcond=None)
    residuals = logs - model @ found
    rest = float(residuals @ residuals)
    alone = model[:, : len(treatments)]
    without = logs - alone @ np.linalg.lstsq(alone, logs, rcond=None)[0]
    gained = max(float(without @ without) - rest, 0.0)
    ratio = math.inf if rest <= 0 else gained / (len(hosts) - 1) / (rest / dof)
    p = (
        1.0
        if gained < 1e-18
        else 0.0
        if math.isinf(ratio)
        else f_beyond(ratio, len(hosts) - 1, dof)
    )
    speeds = np.array([0.0, *found[len(treatments) :]])
    speeds -= speeds.mean()
    return HostFit(dict(zip(hosts, map(float, speeds), strict=True)), _sds(measured, hosts), p)


def noisier(fit: HostFit, trials: Mapping[str, int]) -> tuple[str, ...]:
    """Return the hosts whose trials differ significantly more than those of the others, and much more."""
    known = {name: sd for name, sd in fit.log_sds.items() if sd > 0}
    found = []
    for name, sd in known.items():
        others = [(known[x], trials[x] - 1) for x in known if x != name and trials[x] > 1]
        dof = sum(count for _, count in others)
        if not dof or trials[name] < 2:
            continue
        usual = math.sqrt(sum(x**2 * count for x, count in others) / dof)
        is_significant = f_beyond((sd / usual) ** 2, trials[name] - 1, dof) < LEVEL / len(known)
        if sd > _NOISIER * usual and is_significant:
            found.append(name)
    return tuple(found)


def differ_between_hosts(ratios: Mapping[str, Sequence[float]]) -> float | None:
    """Return the p-value of an effect being the same on all hosts.

    Args:
        ratios: by host, the log ratios of its blocks.

    Returns:
        None with fewer than two hosts, or where none has more than one block.

    Source: one-way analysis of variance.
    """
    groups = [np.array(x) for x in ratios.values() if len(x)]
    count = sum(map(len, groups))
    dof = count - len(groups)
    if len(groups) < 2 or dof < 1:
        return None
    mean = float(np.concatenate(groups).mean())
    between = sum(len(x) * (float(x.mean()) - mean) ** 2 for x in groups)
    within = sum(float(((x - x.mean()) ** 2).sum()) for x in groups)
    if within <= 0:
        return 1.0 if between < 1e-18 else 0.0
    return f_beyond(between / (len(groups) - 1) / (within / dof), len(groups) - 1, dof)


def host_shifts(measured: Sequence[Measured]) -> list[float]:
    """Return what to add to each logarithm so that it is that of the mean host; 0 where hosts do not differ significantly."""
    if len({one.host for one in measured}) < 2:
        return [0.0] * len(measured)
    fit = fit_hosts(measured)
    if fit is None or not fit.differ:
        return [0.0] * len(measured)
    return [-fit.log_speeds[one.host] for one in measured]


def _sds(measured: Iterable[Measured], hosts: Sequence[str]) -> dict[str, float]:
    groups: dict[str, dict[object, list[float]]] = {host: {} for host in hosts}
    for one in measured:
        groups[one.host].setdefault(one.treatment, []).append(one.log)
    found = {}
    for host, of in groups.items():
        squares = sum(float(((np.array(x) - np.mean(x)) ** 2).sum()) for x in of.values())
        dof = sum(len(x) - 1 for x in of.values())
        found[host] = math.sqrt(squares / dof) if dof else math.nan
    return found

"""Which study does a search become on this machine? One with the server's own space, and with eyes for its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pgdrag.collectors import all_collectors, all_observations
from pgdrag.designs.search.parameters import SearchParameters
from pgdrag.english import did_you_mean
from pgdrag.errors import UsageError
from pgdrag.experiment.search_space import search_space
from pgdrag.host.allowance import Allowance
from pgdrag.model import Study
from pgdrag.servers.settings import SettingsCatalog


def on_this_machine(study: Study, catalog: SettingsCatalog, allowance: Allowance) -> Study:
    """Return a study whose design searches with all that it needs of the server and the machine; any other as it is.

    Raises:
        UsageError: it is limited by what no collector observes.
    """
    parameters = study.design_parameters
    if not isinstance(parameters, SearchParameters):
        return study
    study = with_limits_observed(study, parameters.limits)
    if parameters.space != "all":
        return study
    space = search_space(
        catalog,
        study.rungs[0].treatment.of_kind("setting"),
        allowance,
        connections=study.load.connections,
        goal=parameters.goal,
    )
    completed = parameters.model_copy(update={"dimensions": space.dimensions})
    return replace(study, design_parameters=completed)


def with_limits_observed(study: Study, limits: Mapping[str, float]) -> Study:
    """Return a study whose instrument observes what its configurations are limited by.

    Args:
        limits: greatest values, by the observation's name.

    Raises:
        UsageError: no collector observes that.
    """
    by_name = {
        seen.name: collector
        for collector, all_seen in all_observations().items()
        for seen in all_seen
    }
    instrument = study.instrument
    for name in limits:
        if name not in by_name:
            raise UsageError(
                f'there is no observation "{name}" to limit a search by',
                hint=did_you_mean(name, by_name) or "See: pgdrag list collectors.",
            )
        if all_collectors()[by_name[name]].is_optional:
            instrument = instrument.also(by_name[name])
    return replace(study, instrument=instrument)

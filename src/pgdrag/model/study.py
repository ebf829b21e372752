"""A study: the treatments, workload, design and load of one experiment, and what was published of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import PlainSerializer, PlainValidator, ValidationInfo

from pgdrag.adapters import FINITE
from pgdrag.english import did_you_mean
from pgdrag.errors import UsageError
from pgdrag.model.claims import StatedClaim, StoredClaim
from pgdrag.model.design import (
    Design,
    DesignParameters,
    all_designs,
    make_design,
    parameters_of,
    stored_parameters,
)
from pgdrag.model.load import LoadProfile
from pgdrag.model.treatment import Forecast, Level, Treatment

OPERATIONAL_SPEED = "operational speed"  # pg_expecto's; see `findings.expecto.published`


@dataclass(frozen=True)
class WorkloadSpec:
    """Which workload, with its own parameters (JSON values)."""

    kind: str
    parameters: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class ExistingPlace:
    """A server that exists, on which a study runs in place of throw-away clusters.

    Attributes:
        server: what people call it.
        conninfo: libpq's, never with a password.
        system_identifier: which its control file has, and no other server but its copies.
        has_own_database: the workload runs in a database that pgdrag makes there, and drops.
        restart_command: restarts it; "": it is not restarted.
    """

    server: str
    conninfo: str
    system_identifier: str
    has_own_database: bool = False
    restart_command: str = ""


@dataclass(frozen=True)
class Instrument:
    """What observes the trials of a study: the same in all of them, so that ratios are free of its cost.

    Attributes:
        collectors: "turns": they sample and pause in turns within each window, to measure their cost.
        optional: collectors that are off by default, and are on.
    """

    collectors: Literal["on", "off", "turns"] = "on"
    optional: tuple[str, ...] = ()

    def includes(self, collector: str, *, is_optional: bool) -> bool:
        """Tell whether a collector, by name, observes the trials."""
        return self.collectors != "off" and (not is_optional or collector in self.optional)

    def also(self, collector: str) -> Instrument:
        """Return it with an optional collector."""
        return replace(self, optional=tuple(dict.fromkeys((*self.optional, collector))))


@dataclass(frozen=True)
class Claim:
    """A published number that a rung carries.

    Attributes:
        tps: published transactions per second, or None where only words were published.
        text: what else the source says of it.
        speedup: how many times as fast as the baseline it was published to be, where rates were not.
        of: the quantity that was published: "throughput" or "operational speed".
        trend: how the rate was published to go while the load went on, "steady" or "falling"; None
            where nothing was said of it.
        series: published rates: the end of each interval in seconds from the beginning, and the rate in it.
        source: which of the study's further sources published it; "" is the main one. Only rates of one source are
            compared with each other.
    """

    tps: float | None = None
    text: str = ""
    speedup: float | None = None
    of: str = "throughput"
    trend: Literal["steady", "falling"] | None = None
    series: tuple[tuple[float, float], ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        assert self.speedup is None or self.speedup > 0, self.speedup


@dataclass(frozen=True)
class Rung:
    """One step of a ladder: what it adds, and what was published of it.

    Attributes:
        treatment: complete: the baseline and all rungs up to this one.
        added: the levels that this rung itself names.
        expects: observation name → "up" or "down": what the claimed mechanism must move.
    """

    name: str
    title: str
    treatment: Treatment
    added: tuple[Level, ...] = ()
    claim: Claim = field(default_factory=Claim)
    mechanism: str = ""
    expects: Mapping[str, Literal["up", "down"]] = field(default_factory=dict)

    @property
    def heading(self) -> str:
        """Its name with its title, where it has one: "A1 a small cache"."""
        return f"{self.name} {self.title}".strip()


@dataclass(frozen=True)
class Source:
    """Where the claims come from.

    Attributes:
        limits: what it could not know, in sentences.
    """

    title: str = ""
    author: str = ""
    url: str = ""
    setup: str = ""
    limits: str = ""

    @property
    def words(self) -> str:
        """Its title, or its address, and its author; "" where nothing is known of it."""
        return ", ".join(word for word in (self.title or self.url, self.author) if word)


def _read(value: Any, info: ValidationInfo) -> DesignParameters:
    if isinstance(value, DesignParameters):
        return value
    if (design := info.data.get("design")) is None:
        raise ValueError("there is no design that these could be of")
    if not isinstance(value, Mapping):
        raise ValueError("the parameters of a design have names")
    return stored_parameters(design, value)


def _stored(parameters: DesignParameters) -> dict[str, Any]:
    return parameters.model_dump(mode="json")


# A journal stores the values; the study's design says which class they are of.
StoredParameters = Annotated[DesignParameters, PlainValidator(_read), PlainSerializer(_stored)]


@dataclass(frozen=True)
class Study:
    """All that analysis and report need of an experiment: no files, no servers.

    Attributes:
        scale: which of the experiment's scales was run; without an experiment, the workload in words,
            with commas between them.
        rungs: the first is the baseline.
        notes: sentences of the experiment file to print with the results.
        design_parameters: what the design was given, and its defaults.
        is_checked: the dataset's consistency is checked after every trial.
        budget_s: what all trials together may take, in seconds; the run ends before one that would
            pass it. None: no limit.
        allowed: what of the machine it may change: names of sysctls, devices, mount points.
        instrument: what observes its trials.
        claims: what was published of its treatments beside the rates that its rungs carry.
        sources: where those come from that `source` did not publish, by name.
        place: the server that it runs on, where that is one that exists; None: throw-away clusters.
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = FINITE
    name: str
    title: str
    question: str
    scale: str
    design: str
    rungs: tuple[Rung, ...]
    source: Source
    workload: WorkloadSpec
    load: LoadProfile
    replicates: int
    notes: tuple[str, ...] = ()
    design_parameters: StoredParameters = field(default_factory=DesignParameters)
    is_checked: bool = True
    budget_s: float | None = None
    allowed: tuple[str, ...] = ()
    instrument: Instrument = field(default_factory=Instrument)
    claims: tuple[StoredClaim, ...] = ()
    sources: Mapping[str, Source] = field(default_factory=dict)
    place: ExistingPlace | None = None

    def __post_init__(self) -> None:
        if type(self.design_parameters) is DesignParameters:
            object.__setattr__(self, "design_parameters", parameters_of(self.design, {}))

    @property
    def is_cumulative(self) -> bool:
        """Each rung builds upon the ones before it."""
        kind = all_designs().get(self.design)
        return kind is not None and kind.is_cumulative

    @property
    def noun(self) -> str:
        """What its design calls one of its treatments: "arm", "rung", "treatment"."""
        return (all_designs().get(self.design) or Design).noun

    @property
    def headline(self) -> StatedClaim | None:
        """The claim that it is known for; None where it says none."""
        return next((one for one in self.claims if one.headline), None)

    @property
    def scale_words(self) -> str:
        """The scale as a report names it: "scale demo", or the workload itself."""
        return self.scale if "," in self.scale else f"scale {self.scale}"

    @property
    def levels(self) -> tuple[Level, ...]:
        """Every level that the study sets anywhere, once, in the order of the rungs; then those that its design tries."""
        every = (level for rung in self.rungs for level in (*rung.added, *rung.treatment.levels))
        return tuple(dict.fromkeys((*every, *make_design(self).levels)))

    def load_s(self, forecast: Forecast) -> tuple[float, float]:
        """Return how long the load of these trials takes, in seconds: at least, and if each uses its whole budget."""
        brief = self.load.shortened()
        most, brief_most = forecast.longest
        times = ((brief, forecast.brief_least, brief_most), (self.load, forecast.least, most))
        least_s = sum(count * (x.warm_up_s + x.measure_s) for x, count, _ in times)
        most_s = sum(count * (x.warm_up_s + x.budget_s) for x, _, count in times)
        return least_s, most_s

    def with_design(self, design: str, **parameters: object) -> Study:
        """Return the same study with another design, and the parameters of that one."""
        return replace(self, design=design, design_parameters=parameters_of(design, parameters))

    def only(self, names: Sequence[str]) -> Study:
        """Return the same study with the baseline and these rungs alone, in the order of the file.

        Raises:
            UsageError: it has no such rung, or its rungs build upon each other.
        """
        if self.is_cumulative:
            raise UsageError(
                f"rungs cannot be left out: those of design {self.design} build upon each other"
            )
        rungs = {rung.name: rung for rung in self.rungs[1:]}
        for name in names:
            if name not in rungs:
                hint = did_you_mean(name, rungs) or f"Its rungs: {', '.join(rungs)}."
                raise UsageError(f'{self.scale_words} has no rung "{name}"', hint=hint)
        chosen = [rung for rung in rungs.values() if rung.name in names]
        return replace(self, rungs=(self.rungs[0], *chosen))

    def with_replicates(self, replicates: int) -> Study:
        """Return the same study with another number of replicates."""
        return replace(self, replicates=replicates)

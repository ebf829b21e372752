"""What may stand in an experiment file? The tables and keys, their types, bounds and defaults.

The tables of levels (`[baseline.setting]`) are named by the registered kinds of factors, and
`[workload]` and `[design]` have the keys of the registered workload or design; the models and the
JSON Schema are therefore made when they are first asked for.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from pgdrag.collectors import all_collectors
from pgdrag.designs import all_designs
from pgdrag.english import printable
from pgdrag.errors import PluginError
from pgdrag.experiment.load import LoadTable
from pgdrag.factors import Phase, all_factors
from pgdrag.model.claims import all_claims
from pgdrag.workloads import all_workloads

FORMAT_VERSION = 1
SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"

_LEVEL_TYPES = ["string", "integer", "number", "boolean"]


class WrittenFloat(float):
    """A number that remembers how it was written: 1e300 is not to be applied as 1e+300."""

    written: str

    def __new__(cls, written: str) -> WrittenFloat:
        """Read a number as TOML writes it."""
        number = super().__new__(cls, written)
        number.written = written.replace("_", "")
        return number


def _level_text(value: object) -> str:
    match value:
        case bool():
            return "on" if value else "off"
        case WrittenFloat():
            return value.written
        case int() | float():
            return str(value)
        case str() if "\n" in value or "\0" in value:
            raise PydanticCustomError("level_text", "must be one line")
        case str() if value != printable(value):  # pasted with an escape such as '\\351'
            raise PydanticCustomError("level_text", "must be UTF-8")
        case str():
            return value
        case _:
            raise PydanticCustomError("level_type", "must be a string, a number, true or false")


def _points(series: list[list[float]]) -> list[list[float]]:
    for before, after in pairwise([[0.0, 1.0], *series]):
        if not (after[0] > before[0] and after[1] > 0):
            raise PydanticCustomError(
                "pairs", "must be pairs of a time and a rate, both over 0, with ascending times"
            )
    return series


_Number = Annotated[float, Field(allow_inf_nan=False)]
_Point = Annotated[list[_Number], Field(min_length=2, max_length=2)]
Points = Annotated[list[_Point], AfterValidator(_points)]
LevelText = Annotated[str, BeforeValidator(_level_text), WithJsonSchema({"type": _LEVEL_TYPES})]
# Dotted names (auto_explain.log_format) are tables within the table to TOML; they are plain names
# by the time the model sees them.
_LEVELS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [
            {"type": _LEVEL_TYPES},
            {"type": "object", "additionalProperties": {"type": _LEVEL_TYPES}},
        ]
    },
}
# So is the text of a postgresql.conf.
_SETTINGS_SCHEMA: dict[str, Any] = {"anyOf": [_LEVELS_SCHEMA, {"type": "string"}]}
Levels = Annotated[dict[str, LevelText], WithJsonSchema(_LEVELS_SCHEMA)]
Settings = Annotated[dict[str, LevelText], WithJsonSchema(_SETTINGS_SCHEMA)]

NAME_FORM = r"^[A-Za-z0-9][A-Za-z0-9._ -]*$"
EXPERIMENT_NAME_FORM = r"^[a-z0-9][a-z0-9-]*$"
FORMS = {
    NAME_FORM: 'letters, digits, spaces, ".", "_" and "-"',
    EXPERIMENT_NAME_FORM: "lower-case letters, digits and hyphens",
}
Name = Annotated[str, Field(min_length=1, max_length=60, pattern=NAME_FORM)]
Bag = Annotated[dict[str, Any], Field(default_factory=dict)]


class Table(BaseModel):
    """A table of the file: no key but those named, no value of another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    # Kinds of factors that have no levels in this table: its own key of that name is another thing.
    kinds_without_levels: ClassVar[frozenset[str]] = frozenset()

    def levels(self, kind: str) -> dict[str, str]:
        """Return the levels of one kind of factor that this table names."""
        found: dict[str, str] = {} if kind in self.kinds_without_levels else getattr(self, kind)
        return found


class SourceTable(Table):
    """Where the claims come from."""

    title: str = Field(default="", description="Title of the publication")
    author: str = Field(default="", description="Who published it")
    url: str = Field(default="", description="Where it can be read")
    setup: str = Field(default="", description="Machine, versions and protocol of the original")
    limits: str = Field(
        default="", description="Limitations of the original, printed beside its claims"
    )


class ClaimTable(Table):
    """What was published of a rung's rates."""

    tps: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Published transactions per second"
    )
    speedup: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Where no rates were published: how many times as fast as the baseline",
    )
    of: Literal["throughput", "operational speed"] = Field(
        default="throughput", description="The quantity that was published"
    )
    trend: Literal["steady", "falling"] | None = Field(
        default=None, description="Published trend of the rate during the load"
    )
    series: Points = Field(
        default_factory=list,
        description="Published rates over time: [seconds from the beginning, transactions per second], "
        "each of the interval that ends there",
    )
    text: str = Field(default="", description="What else was published of it")
    source: str = Field(
        default="", description="Which of [sources] published it (default: [source])"
    )

    @model_validator(mode="after")
    def _goes_as_it_says(self) -> ClaimTable:
        if self.tps is not None and self.speedup is not None:
            raise ValueError("has tps, so that speedup would be ignored: omit one of them")
        if self.trend == "falling" and len(self.series) > 1:
            first, last = self.series[0][1], self.series[-1][1]
            if last >= first:
                raise ValueError(f'trend is "falling", but series goes from {first:g} to {last:g}')
        return self


class StatedClaimTable(Table):
    """What else was published of the rungs."""

    model_config = ConfigDict(extra="allow")  # the kind's own model judges the rest

    kind: str


class InstrumentTable(Table):
    """What observes the trials; made with a key for each optional collector."""

    collectors: Annotated[Literal["on", "off", "turns"], BeforeValidator(_level_text)] = Field(
        default="on",
        description="All collectors; turns: they sample and pause in turns, to measure their cost",
    )


class BaselineTable(Table):
    """What every rung is compared with."""

    name: Name = Field(default="baseline", description="Name in reports")
    instrument: InstrumentTable = Field(
        default_factory=InstrumentTable, description="An older place of [instrument]"
    )
    title: str = Field(default="", description="A few words on what it is")
    claim: ClaimTable = Field(default_factory=ClaimTable, description="What was published of it")


class RungTable(Table):
    """One step: levels that are added to the baseline and to all rungs above this one."""

    name: Name = Field(description="Name in reports; no two rungs have the same")
    title: str = Field(
        default="", description="A few words on what it changes (default: its levels)"
    )
    claim: ClaimTable = Field(default_factory=ClaimTable, description="What was published of it")
    mechanism: str = Field(default="", description="Why it should matter: a sentence")
    expects: dict[str, Literal["up", "down"]] = Field(
        default_factory=dict,
        description="What the mechanism must move, by the name of an observation: up or down",
    )


class ScaleTable(Table):
    """How large and how long: the same question, for minutes or for a night."""

    # What the clients do at a scale is no level of its treatments, but the same for all of them.
    kinds_without_levels: ClassVar[frozenset[str]] = frozenset({"workload"})

    summary: str = Field(default="", description="One line for `pgdrag list`")
    replicates: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=1, description="How often each treatment is run, in random order"
    )
    rungs: Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None,
        description="Names of the rungs that this scale runs beside the baseline (default: all)",
    )
    workload: Bag = Field(description="Keys of [workload] that this scale replaces")
    load: LoadTable = Field(default_factory=LoadTable, description="How hard and how long")
    instrument: InstrumentTable = Field(
        default_factory=InstrumentTable, description="Keys of [instrument] that this scale replaces"
    )
    design: Bag = Field(description="Keys of [design] that this scale replaces")
    check: bool = Field(
        default=True,
        description="Check the dataset's consistency after every trial; a violation makes it invalid",
    )


class WorkloadTable(Table):
    """What the clients do."""

    model_config = ConfigDict(extra="allow")  # the workload's own model judges the rest

    kind: str


class DesignTable(Table):
    """Which treatments are run."""

    model_config = ConfigDict(extra="allow")  # the design's own model judges the rest

    kind: str = "ladder"


class ExperimentTable(Table):
    """The whole file."""

    pgdrag: Literal[1] = Field(description="Version of the file format")
    name: Annotated[str, Field(max_length=60, pattern=EXPERIMENT_NAME_FORM)] = Field(
        description="Name of the experiment: lower case, digits, hyphens"
    )
    title: str = Field(default="", description="Heading of the report (default: the name)")
    question: str = Field(default="", description="What the experiment answers: one sentence")
    notes: list[str] = Field(
        default_factory=list, description="Sentences to print with the results"
    )
    source: SourceTable = Field(
        default_factory=SourceTable, description="Where the claims come from"
    )
    sources: dict[Name, SourceTable] = Field(
        default_factory=dict, description="Further sources of claims, by name"
    )
    workload: WorkloadTable = Field(description="What the clients do")
    design: DesignTable = Field(
        default_factory=DesignTable, description="Which treatments are run (default: a ladder)"
    )
    instrument: InstrumentTable = Field(
        default_factory=InstrumentTable, description="What observes all trials"
    )
    baseline: BaselineTable = Field(description="What every rung is compared with")
    rungs: Annotated[list[RungTable], Field(min_length=1)] = Field(
        description="The steps, in order, each upon those above it"
    )
    claims: list[StatedClaimTable] = Field(
        default_factory=list, description="What was published beside the rates that rungs carry"
    )
    scales: Annotated[dict[Name, ScaleTable], Field(min_length=1)] = Field(
        description="Sizes of the experiment by name; the first is the default"
    )


@cache
def experiment_table() -> type[ExperimentTable]:
    """Return the model of the file, with a table of levels for each registered kind of factor."""
    baseline, rung, scale = (_with_levels(x) for x in (BaselineTable, RungTable, ScaleTable))
    fields: dict[str, Any] = {
        "instrument": (
            _instrument_table(),
            _field("instrument", default_factory=_instrument_table()),
        ),
        "baseline": (baseline, _field("baseline", default_factory=baseline)),
        "rungs": (Annotated[list[rung], Field(min_length=1)], _field("rungs")),  # type: ignore[valid-type]
        "scales": (Annotated[dict[Name, scale], Field(min_length=1)], _field("scales")),  # type: ignore[valid-type]
    }
    return create_model("Experiment", __base__=ExperimentTable, **fields)


def experiment_schema() -> dict[str, Any]:
    """Return the JSON Schema of the file, for editors: with every registered workload and design."""
    schema = experiment_table().model_json_schema()
    definitions = schema["$defs"]
    workloads = {x: kind.model_json_schema() for x, kind in all_workloads().items()}
    designs = {x: kind.Parameters.model_json_schema() for x, kind in all_designs().items()}
    claims = {x: kind.model_json_schema() for x, kind in all_claims().items()}
    definitions["StatedClaimTable"] = _one_of(claims, is_kind_required=True)
    for table, tables in (("Workload", workloads), ("Design", designs)):
        is_kind_required = "kind" in definitions[f"{table}Table"].get("required", ())
        for variant in tables.values():
            definitions.update(variant.pop("$defs", {}))
            # A scale may add what the file's own table lacks.
            variant.pop("required", None)
        definitions[f"{table}Table"] = _one_of(tables, is_kind_required=is_kind_required)
        scale = definitions["ScaleTable"]["properties"][table.lower()]
        scale.pop("additionalProperties", None)
        scale["anyOf"] = list(tables.values())
    schema["properties"]["scales"]["additionalProperties"] = False  # none but names of that form
    return {
        "$schema": SCHEMA_ID,
        **schema,
        "title": "pgdrag experiment file",
        "description": "An experiment of pgdrag: a workload, a baseline, and what is changed.",
    }


@cache
def _instrument_table() -> type[InstrumentTable]:
    switch = Annotated[Literal["on", "off"], BeforeValidator(_level_text)]
    fields: dict[str, Any] = {
        name: (switch, Field(default="off", description=kind.summary))
        for name, kind in all_collectors().items()
        if kind.is_optional
    }
    return create_model("InstrumentTable", __base__=InstrumentTable, **fields)


def _with_levels(table: type[Table]) -> type[Table]:
    taken = table.model_fields.keys() & all_factors().keys()
    if taken != table.kinds_without_levels:
        names = ", ".join(sorted(taken - table.kinds_without_levels))
        raise PluginError(f"kinds of factors have the names of keys of an experiment file: {names}")
    # One class of the same name, so that the JSON Schema shows the name that the reference has.
    fields: dict[str, Any] = {
        kind: (
            Settings if factor.phase is Phase.SETTINGS else Levels,
            Field(default_factory=dict, description=f"Levels of {factor.summary}, by name"),
        )
        for kind, factor in all_factors().items()
        if kind not in taken
    }
    if "instrument" in table.model_fields:
        description = table.model_fields["instrument"].description
        instrument = _instrument_table()
        fields["instrument"] = (
            instrument,
            Field(default_factory=instrument, description=description),
        )
    return create_model(table.__name__, __base__=table, __doc__=table.__doc__, **fields)


def _field(name: str, **more: Any) -> Any:
    return Field(description=ExperimentTable.model_fields[name].description, **more)


def _one_of(tables: dict[str, dict[str, Any]], *, is_kind_required: bool) -> dict[str, Any]:
    variants = []
    for kind, schema in tables.items():
        properties = {"kind": {"const": kind, "type": "string"}, **schema.get("properties", {})}
        variant = {**schema, "properties": properties}
        if is_kind_required:
            variant["required"] = ["kind", *schema.get("required", ())]
        variants.append(variant)
    return {"anyOf": variants}

"""What to run and what came of it: the values that the parts of pgdrag pass to each other.

Everything here is a frozen value without behaviour that reaches outside: a design asks for
`Treatment`s, the laboratory makes `Trial`s of them, a trial ends as a `Result`, and the journal,
the analysis and the report read nothing else.
"""

from pgdrag.model.host import Host
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Arrivals, Counts, DriverCost, Latency, Measurement, Sample
from pgdrag.model.recordings import Recordings
from pgdrag.model.result import (
    Applied,
    CopyMethod,
    Observation,
    Outcome,
    RestoreCost,
    Result,
    Trial,
    Unit,
)
from pgdrag.model.run import RunRecord, UnderWay
from pgdrag.model.study import (
    OPERATIONAL_SPEED,
    Claim,
    ExistingPlace,
    Instrument,
    Rung,
    Source,
    Study,
    WorkloadSpec,
)
from pgdrag.model.treatment import LONGEST_SHOWN, Block, Forecast, Level, Treatment

__all__ = [
    "LONGEST_SHOWN",
    "OPERATIONAL_SPEED",
    "Applied",
    "Arrivals",
    "Block",
    "Claim",
    "CopyMethod",
    "Counts",
    "DriverCost",
    "ExistingPlace",
    "Forecast",
    "Host",
    "Instrument",
    "Latency",
    "Level",
    "LoadProfile",
    "Measurement",
    "Observation",
    "Outcome",
    "Recordings",
    "RestoreCost",
    "Result",
    "RunRecord",
    "Rung",
    "Sample",
    "Source",
    "Study",
    "Treatment",
    "Trial",
    "UnderWay",
    "Unit",
    "WorkloadSpec",
]

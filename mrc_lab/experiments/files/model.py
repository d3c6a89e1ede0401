"""The model of experiment files, as frozen values; the fields' types are also its JSON schema (see `schema`).

An :class:`Experiment` has one or more cases: the file's own settings or, with `variants`, those laid over them one by
one, so that transports or sizes are compared within one experiment. Times are nanoseconds from the beginning of a run,
rates bits per second, sizes bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mrc_common import units
from mrc_common.declared.document import Value
from mrc_common.declared.field_types import (
    Boolean,
    FieldType,
    Integer,
    JsonSchema,
    Quantity,
    Text,
    a_rate,
    a_share,
    a_size,
    a_time,
)
from mrc_common.declared.sections import (
    Instance,
    ListOf,
    PairOf,
    Section,
    SetOf,
    SomeFields,
    TaggedUnion,
    key,
    override_schema,
    plain_fields,
)
from mrc_host.config import SPRAYING, TransportSettings
from mrc_host.transport.dcqcn import CONSTANTS
from mrc_host.verbs_types import DcqcnProfile, NsccProfile, QpAttributes, QpType
from mrc_lab.backends import BACKENDS, DEFAULT
from mrc_lab.experiments.files import renamed_keys, workloads
from mrc_lab.experiments.files.fabric_part import FabricPart, FabricSection
from mrc_lab.experiments.files.faults import FaultKinds, PlannedFault
from mrc_lab.experiments.files.flap_process import FlapProcess
from mrc_lab.experiments.files.metric_names import METRICS, RELATIONS, STATISTICS
from mrc_lab.experiments.files.plugin_file import PluginFile
from mrc_lab.experiments.files.program_file import ProgramFile
from mrc_lab.experiments.files.size_range import SizeRange, SizeRangeType
from mrc_lab.experiments.files.sizes import SizePoint
from mrc_lab.experiments.files.tenants import TenantEntry, TenantPart
from mrc_lab.experiments.files.timing import TimingProfile
from mrc_lab.experiments.files.workloads import MAX_QPS, Workload
from mrc_lab.published import Curve, Number
from simulation.hardware_timing import IDEAL, HardwareTiming
from topologies.errors import FabricError
from topologies.fabric import lower_end_first

TIMERS = (
    "base_rtt",
    "tail_probe_min",
    "rto_low",
    "rto_high",
    "packet_lifetime",
    "recovery_delay",
    "retransmission_pause",
    "probe_interval",
    "probe_timeout",
    "probe_spacing",
    "flap_half_life",
    "reverse_probe_interval",
    "port_status_retry",
    "port_status_max",
    "flap_window",
    "slow_port_retry",
)
TIMES = ("port_remap",)  # no timers: they have nothing to do with round trips

MAX_EVS = 4096  # of an EV profile
NSCC_TIMES = (
    "adjust_period_threshold", "base_rtt", "base_rtt_floor", "reference_rtt", "clear_delay", "qa_threshold",
    "target_delay",
)  # fmt: skip
_NSCC = Instance(NsccProfile, plain_fields(NsccProfile, times=NSCC_TIMES))
DCQCN_TIMES = ("increase_interval", "alpha_interval", "cnp_interval")
DCQCN_RATES = ("min_rate", "additive_rate", "hyper_rate")
_DCQCN_TYPES = {"constants": Text(tuple(CONSTANTS)), "increase_bytes": a_size(), **dict.fromkeys(DCQCN_RATES, a_rate())}
_DCQCN = Instance(DcqcnProfile, plain_fields(DcqcnProfile, _DCQCN_TYPES, times=DCQCN_TIMES))
_PROFILES = {"nscc": _NSCC, "dcqcn": _DCQCN}
_ATTRIBUTES_ELSEWHERE = (
    "active_paths", "congestion_window", "ev_profile", "cc_profile", "udp_sport", "planes", "remote_write",
)  # fmt: skip
_SETTINGS_ELSEWHERE = ("congestion", "rc_congestion", "spraying", "path_selection", "plugins")

_TIMING_IGNORED = "timing is ignored in emulation: hosts, NICs and switches take their own time there"
CERTAINTIES = ("C", "I", "I1", "S", "D", "U")


@dataclass(frozen=True, slots=True)
class TransportPart:
    """The transport of every flow."""

    type: str = key(
        Text(tuple(kind.value for kind in QpType)),
        "mrc, or a baseline: rc (RoCEv2, go-back-N), rc_sr (selective repeat), rc_ar (adaptive routing), uet",
        default="mrc",
    )
    qps: int = key(Integer(1, MAX_QPS), "queue pairs of each flow", default=1)
    paths: int | None = key(
        Integer(1),
        "mrc, uet: entropy values in the active set, the same number in each plane and at least one",
        default=None,
    )
    evs: int | None = key(
        Integer(1, MAX_EVS),
        "mrc, uet: entropy values that a queue pair has in all, drawn at random; 1 is a single path in a single plane",
        default=None,
    )
    congestion: str | None = key(
        Text(),
        "congestion control: of mrc and uet nscc, fixed or none; of rc, rc_sr and rc_ar dcqcn, fixed or none",
        default=None,
    )
    spraying: str | None = key(
        Text(SPRAYING), "mrc: whether marks, trims and losses change the paths in use", default=None
    )
    path_selection: str | None = key(Text(), "mrc: a path selection of a plugin", default=None)
    ev_choice: str = key(
        Text(("random", "coordinated")),
        "mrc: active paths at random, or such that the queue pairs of a rack share uplinks evenly",
        default="random",
    )
    planes: frozenset[int] | None = key(
        SetOf(Integer(0), least=1), "planes on which queue pairs send data and answers; all, unless given", default=None
    )
    window: int | None = key(a_size(), "fixed congestion window of a queue pair", default=None)
    attributes: tuple[tuple[str, object], ...] = key(
        SomeFields(plain_fields(QpAttributes, without=_ATTRIBUTES_ELSEWHERE)),
        "further fields of mrc_host.verbs_types.QpAttributes",
        default=(),
    )
    settings: tuple[tuple[str, object], ...] = key(
        SomeFields(
            plain_fields(TransportSettings, _PROFILES, times=(*TIMERS, *TIMES), without=_SETTINGS_ELSEWHERE),
            renamed_keys.SETTINGS,
        ),
        "further fields of mrc_host.config.TransportSettings",
        default=(),
    )

    @property
    def kind(self) -> QpType:
        """The type of the queue pairs."""
        return QpType(self.type)


@dataclass(frozen=True, slots=True)
class MeasurePart:
    """What is recorded."""

    bin: int = key(a_time(1000), "width of the time bins of all series", default=10_000)
    warmup: int = key(a_time(), "beginning of the run that counts in no metric unless asked for", default=0)
    links: bool = key(Boolean(), "frames of every link in every bin", default=True)
    queues: bool = key(
        Boolean(),
        "queue depth and pauses at every switch port in every bin, for queue_depth, pause_time and pauses",
        default=False,
    )


@dataclass(frozen=True, slots=True)
class Selection:
    """What a metric is computed from: a case, flows or a link, and a window of time."""

    variant: str | None = key(Text(), "the variant; needed when there are several", default=None)
    tenant: str | None = key(Text(), "a tenant of workloads; without it, all together", default=None)
    flows: str | None = key(Text(), "flows whose name matches this pattern, as in h1>*", default=None)
    link: str | None = key(
        Text(),
        "a link or pattern, for metrics of links; with > at its end upwards only, with < downwards",
        default=None,
    )
    over_links: str | None = key(
        Text(("sum", "min", "max", "mean")),
        "how ports are taken together; by default the deepest queue and the sum of pauses",
        default=None,
    )
    start: int | None = key(a_time(), "beginning of the window (default: the end of the warm-up)", default=None)
    end: int | None = key(a_time(), "end of the window (default: that of the run)", default=None)
    statistic: str | None = key(Text(STATISTICS), "over time bins, messages, flows or events", default=None)
    sizes: SizeRange | None = key(
        SizeRangeType(), "flows of these sizes, for fct and slowdown: 0..100K, or 10M.. for all above", default=None
    )
    over_flows: str = key(Text(("sum", "min", "max", "mean")), "how flows are taken together", default="sum")

    @property
    def link_directions(self) -> tuple[str, str]:
        """The links' pattern, lower end first, and the directions that are meant: of ``>`` (up) and ``<`` one or both.

        FabricError where the direction is not clear: a link may be named from either end, and an arrow after the upper
        end reads as if it led away from that.
        """
        given = self.link or "*"
        pattern = given.rstrip("<>")
        arrows, links = given[len(pattern) :], lower_end_first(pattern)
        if len(arrows) > 1:
            raise FabricError(f"{given!r} ends with {arrows}: write > for upwards, < for downwards, and none for both")
        if arrows and links != pattern:
            raise FabricError(
                f"{given!r} is not clear: write the lower end first, {links}> for upwards, {links}< for downwards"
            )
        return links, arrows or "<>"


@dataclass(frozen=True, slots=True)
class Published:
    """What was published."""

    certainty: str = key(Text(CERTAINTIES), "how certain the value is, see docs/protocol.md section 0")
    value: str | None = key(Text(), "the value, in the unit of the metric", default=None)
    text: str = key(Text(), "in words", default="")
    number: float | None = None


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is expected of a metric. With `against` it is the ratio of two values."""

    metric: str = key(Text(tuple(METRICS)), "the metric")
    relation: str = key(Text(RELATIONS), "how it compares with the value")
    value: str = key(Text(), "the value, with the unit of the metric; of a ratio a plain number")
    tolerance: float = key(a_share(10.0), "by which share of the value it may be off", default=0.0)
    title: str = key(Text(), "in words", default="")
    of: Selection = key(Section(Selection), "what it is computed from", default=Selection())
    against: Selection | None = key(Section(Selection), "divide by the same metric of this", default=None)
    published: Published | None = key(Section(Published), "what was published", default=None)
    note: str = key(Text(), "why ours may differ", default="")
    backend: str = key(Text(tuple(BACKENDS)), "the only backend on which it is expected; all, unless given", default="")
    number: float = 0.0
    line: int = 0

    @property
    def unit(self) -> str:
        """Unit of the value: rate, time, share or count."""
        return "share" if self.against is not None else METRICS[self.metric]


@dataclass(frozen=True, slots=True)
class PublishedNumber:
    """A published number that a metric is set beside, without a verdict on the run; or one for each flow or size."""

    metric: str = key(Text(tuple(METRICS)), "the metric")
    id: str = key(Text(), "an entry of mrc_lab/published/numbers.yaml, instead of values of one's own", default="")
    title: str = key(Text(), "in words", default="")
    value: str | None = key(Text(), "the value, in the unit of the metric", default=None)
    flows: tuple[str, ...] = key(ListOf(Text()), "a value for each flow, the slowest first", default=())
    sizes: tuple[int, ...] = key(ListOf(a_size()), "message sizes, each with its value in values", default=())
    values: tuple[str, ...] = key(ListOf(Text()), "the values of sizes", default=())
    certainty: str = key(Text(CERTAINTIES), "how certain it is, see docs/protocol.md section 0", default="U")
    bound: str = key(Text(("at_least", "at_most")), "it was published as a bound, not as a value", default="")
    of: Selection = key(
        Section(Selection), "what ours is computed from; for sizes, variant may be a pattern", default=Selection()
    )
    against: Selection | None = key(Section(Selection), "divide ours by the same metric of this", default=None)
    factor: float = key(Quantity(units.NUMBER), "multiply ours by this", default=1.0)
    ranks: int | None = key(
        Integer(1), "ranks of the published collective: compared are steps of one size, bytes over ranks", default=None
    )
    fitted: bool = key(Boolean(), "ours was fitted to it, so that it shows nothing", default=False)
    fitted_sizes: tuple[int, ...] = key(ListOf(a_size()), "the message sizes that ours was fitted to", default=())
    cause: str = key(Text(), "why ours is more than 10 % away, where that is known", default="")
    numbers: tuple[Number, ...] = ()

    @property
    def unit(self) -> str:
        """Unit of the value: rate, time, share or count."""
        return "share" if self.against is not None else METRICS[self.metric]


@dataclass(frozen=True, slots=True)
class PublishedCurve:
    """A published curve over ours: of a series over time, or of a metric over the message size of several variants."""

    metric: str = key(Text(tuple(METRICS)), "the metric")
    id: str = key(Text(), "a curve of mrc_lab/published/curves.json, instead of points of one's own", default="")
    title: str = key(Text(), "in words", default="")
    points: tuple[tuple[str, str], ...] = key(
        ListOf(PairOf(Text())), "pairs of a time or a size, and a value", default=()
    )
    over: str = key(Text(("time", "size")), "what the first of each pair is", default="time")
    certainty: str = key(Text(CERTAINTIES), "how certain it is, see docs/protocol.md section 0", default="U")
    of: Selection = key(
        Section(Selection), "what ours is computed from; over sizes, variant may be a pattern", default=Selection()
    )
    moments: tuple[tuple[int, int], ...] = key(
        ListOf(PairOf(a_time())), "pairs of a published time and the time in the run that it is drawn at", default=()
    )
    relative: str = key(
        Text(("max", "median")), "draw both as shares of their largest value or of their median", default=""
    )
    ranks: int | None = key(Integer(1), "ranks of the published collective, as for numbers", default=None)
    plot: str = key(Text(), "curves of the same name are drawn in one plot", default="")
    curve: Curve | None = None


@dataclass(frozen=True, slots=True)
class PublishedPart:
    """What was published, beside ours: numbers and curves."""

    numbers: tuple[PublishedNumber, ...] = key(
        ListOf(Section(PublishedNumber)), "numbers, each within 10 % or not", default=()
    )
    curves: tuple[PublishedCurve, ...] = key(ListOf(Section(PublishedCurve)), "curves to draw over ours", default=())


@dataclass(frozen=True, slots=True)
class ReportedMetric:
    """A metric that the report tabulates for all variants, without a verdict."""

    metric: str = key(Text(tuple(METRICS)), "the metric")
    title: str = key(Text(), "in words", default="")
    of: Selection = key(Section(Selection), "what it is computed from, of every variant", default=Selection())


@dataclass(frozen=True)
class AnyMapping(FieldType):
    """A mapping that is read later; only its name is looked at now."""

    def read(self, value: Value) -> Value:
        """The piece itself."""
        members = value.items()
        if "name" not in members:
            raise value.error("name is missing: what this variant is called")
        Text().read(members["name"])
        return value

    def schema(self) -> JsonSchema:
        """An object with a name; what may be in it is what may be at the top, in part."""
        whole = Section(CasePart).schema()["properties"]
        parts = {name: (part, override_schema(part)) for name, part in whole.items()}
        entries = whole["workloads"]
        parts["workloads"] = entries, {**entries, "items": override_schema(entries["items"])}
        same = {name: {"$ref": f"#/properties/{name}"} for name, (part, upper) in parts.items() if upper == part}
        return {
            "type": "object",
            "properties": {"name": Text().schema(), **{name: upper for name, (_, upper) in parts.items()}, **same},
            "required": ["name"],
            "additionalProperties": False,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePart:
    """The part of a file that variants may change."""

    fabric: FabricPart = key(FabricSection(), "the fabric")
    workload: Workload | None = key(
        TaggedUnion(workloads.KINDS, several="workloads"), "what the hosts do", default=None
    )
    workloads: tuple[TenantPart, ...] = key(
        ListOf(TenantEntry(workloads.KINDS, TransportPart), 1),
        "several workloads at once instead, each a tenant with a name and perhaps a transport",
        default=(),
    )
    duration: int = key(a_time(1), "how long the run lasts; for a collective, at most")
    transport: TransportPart = key(Section(TransportPart), "the transport", default=TransportPart())
    plugins: tuple[str, ...] = key(
        ListOf(PluginFile(), alone=True),
        "Python files with congestion controls, path selections or workloads of your own, beside this file",
        default=(),
    )
    p4: str | None = key(
        ProgramFile(),
        "P4 program of the switches instead of the fabric's own: a .p4 file, or BMv2's JSON, beside this file",
        default=None,
    )
    faults: tuple[PlannedFault, ...] = key(ListOf(FaultKinds()), "what breaks, and when", default=())
    flaps: tuple[FlapProcess, ...] = key(
        ListOf(Section(FlapProcess), alone=True), "links that go down at random times, so many a minute", default=()
    )
    timing: HardwareTiming = key(
        TimingProfile(), "what hosts, NICs and switches take (in simulation; docs/timing.md)", default=IDEAL
    )
    measure: MeasurePart = key(Section(MeasurePart), "what is recorded", default=MeasurePart())


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart(CasePart):
    """An experiment file."""

    name: str = key(Text(), "a word that names the experiment and its results", default="")
    title: str = key(Text(), "what it shows, in one line", default="")
    figure: str = key(Text(), "the published figure that it reproduces", default="")
    about: str = key(Text(), "what is done, in some sentences", default="")
    backend: str = key(
        Text(tuple(BACKENDS)), "where it runs, unless --backend says otherwise (default: sim)", default=""
    )
    scaled: str = key(Text(), "what is smaller or shorter than in the publication, and by how much", default="")
    variants: tuple[Value, ...] = key(ListOf(AnyMapping()), "cases: each laid over the rest of the file", default=())
    axis: tuple[Value, ...] = key(
        ListOf(AnyMapping()),
        "points, as message sizes: each is laid over every variant, which becomes a case variant.point",
        default=(),
    )
    sizes: tuple[Value, ...] = key(
        ListOf(SizePoint()), "an axis of message sizes: bytes of a write, or of a collective's operation", default=()
    )
    expect: tuple[Expectation, ...] = key(ListOf(Section(Expectation)), "what is expected", default=())
    report: tuple[ReportedMetric, ...] = key(
        ListOf(Section(ReportedMetric)), "metrics to tabulate and plot for all variants", default=()
    )
    published: PublishedPart = key(Section(PublishedPart), "published numbers and curves", default=PublishedPart())


ONLY = "only"


def case_label(name: str) -> str:
    """What people read of a case's name; nothing of a file's only case, since nobody has named that."""
    return "" if name == ONLY else name


def joined(*words: str) -> str:
    """``a: b`` of words that are not empty."""
    return ": ".join(filter(None, words))


def case_prefix(name: str) -> str:
    """``<name>: `` before a message about a case, or nothing."""
    return f"{name}: " if case_label(name) else ""


@dataclass(frozen=True, slots=True)
class Tenant:
    """One of the workloads of a run, with its transport. The only one of a file that has `workload` has no name."""

    name: str
    workload: Workload
    transport: TransportPart


@dataclass(frozen=True, slots=True)
class Case:
    """One run: a variant, one at a point of the axis, or the only one (``ONLY`` in folders and JSON).

    `transport` is that of the file: settings of NICs, which all tenants share, are taken from there.
    """

    name: str
    fabric: FabricPart
    tenants: tuple[Tenant, ...]
    duration: int
    transport: TransportPart
    faults: tuple[PlannedFault, ...]
    measure: MeasurePart
    point: str = ""  # of the file's axis
    timing: HardwareTiming = IDEAL
    p4: str | None = None
    flaps: tuple[FlapProcess, ...] = ()
    document: Value | None = field(default=None, compare=False, repr=False)  # for messages with a line

    @property
    def workload(self) -> Workload:
        """The workload, of a case that has one."""
        (tenant,) = self.tenants
        return tenant.workload

    @property
    def tenant_names(self) -> tuple[str, ...]:
        """Names of tenants; none where the file has one `workload`."""
        return tuple(tenant.name for tenant in self.tenants if tenant.name)

    def tenant(self, name: str | None) -> Tenant | None:
        """The tenant of that name or, without one, the only tenant; None where there is none or several."""
        if name is None:
            return self.tenants[0] if len(self.tenants) == 1 else None
        return next((tenant for tenant in self.tenants if tenant.name == name), None)


@dataclass(frozen=True, slots=True)
class Experiment:
    """A whole file, checked. `text` is the file as it is, `backend` the one that it asks for, or empty."""

    name: str
    title: str
    figure: str
    about: str
    scaled: str
    cases: tuple[Case, ...]
    expect: tuple[Expectation, ...]
    text: str
    source: str
    report: tuple[ReportedMetric, ...] = ()
    published: PublishedPart = PublishedPart()
    key_notes: tuple[str, ...] = ()  # on old names
    backend: str = ""
    document: Value | None = field(default=None, compare=False, repr=False)  # for messages with a line

    def backend_for(self, given: str | None) -> str:
        """Where it runs: on the `given` backend, else the file's, else in simulation."""
        return given or self.backend or DEFAULT

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages for the author of the file."""
        notes = (*self.key_notes, *(fault.note for case in self.cases for fault in case.faults))
        return tuple(dict.fromkeys(filter(None, notes)))

    def notes_on(self, backend: str) -> tuple[str, ...]:
        """The notes, and what of the file that backend ignores."""
        ignored = backend == "emulation" and any(case.timing != IDEAL for case in self.cases)
        return (*self.notes, _TIMING_IGNORED) if ignored else self.notes

    def case(self, name: str | None) -> Case:
        """The case of that name; None: the first."""
        return next(case for case in self.cases if name is None or case.name == name)

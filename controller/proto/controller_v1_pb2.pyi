from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetTopologyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Topology(_message.Message):
    __slots__ = ("fabric", "planes", "mtu", "switches", "nics", "links")
    FABRIC_FIELD_NUMBER: _ClassVar[int]
    PLANES_FIELD_NUMBER: _ClassVar[int]
    MTU_FIELD_NUMBER: _ClassVar[int]
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    NICS_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    fabric: str
    planes: int
    mtu: int
    switches: _containers.RepeatedCompositeFieldContainer[Switch]
    nics: _containers.RepeatedCompositeFieldContainer[Nic]
    links: _containers.RepeatedCompositeFieldContainer[LinkInfo]
    def __init__(self, fabric: _Optional[str] = ..., planes: _Optional[int] = ..., mtu: _Optional[int] = ..., switches: _Optional[_Iterable[_Union[Switch, _Mapping]]] = ..., nics: _Optional[_Iterable[_Union[Nic, _Mapping]]] = ..., links: _Optional[_Iterable[_Union[LinkInfo, _Mapping]]] = ...) -> None: ...

class Switch(_message.Message):
    __slots__ = ("name", "tier", "plane", "index", "device_id", "ports")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    PLANE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    tier: int
    plane: int
    index: int
    device_id: int
    ports: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., tier: _Optional[int] = ..., plane: _Optional[int] = ..., index: _Optional[int] = ..., device_id: _Optional[int] = ..., ports: _Optional[_Iterable[int]] = ...) -> None: ...

class Nic(_message.Message):
    __slots__ = ("name", "t0", "downlink", "address")
    NAME_FIELD_NUMBER: _ClassVar[int]
    T0_FIELD_NUMBER: _ClassVar[int]
    DOWNLINK_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    name: str
    t0: int
    downlink: int
    address: str
    def __init__(self, name: _Optional[str] = ..., t0: _Optional[int] = ..., downlink: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class LinkInfo(_message.Message):
    __slots__ = ("name", "plane", "lower", "upper", "rate_bps")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PLANE_FIELD_NUMBER: _ClassVar[int]
    LOWER_FIELD_NUMBER: _ClassVar[int]
    UPPER_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    name: str
    plane: int
    lower: End
    upper: End
    rate_bps: int
    def __init__(self, name: _Optional[str] = ..., plane: _Optional[int] = ..., lower: _Optional[_Union[End, _Mapping]] = ..., upper: _Optional[_Union[End, _Mapping]] = ..., rate_bps: _Optional[int] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("node", "port", "interface")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    node: str
    port: int
    interface: str
    def __init__(self, node: _Optional[str] = ..., port: _Optional[int] = ..., interface: _Optional[str] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReconcileRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Status(_message.Message):
    __slots__ = ("fabric", "ready", "switches")
    FABRIC_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    fabric: str
    ready: bool
    switches: _containers.RepeatedCompositeFieldContainer[SwitchStatus]
    def __init__(self, fabric: _Optional[str] = ..., ready: _Optional[bool] = ..., switches: _Optional[_Iterable[_Union[SwitchStatus, _Mapping]]] = ...) -> None: ...

class SwitchStatus(_message.Message):
    __slots__ = ("name", "state", "entries", "repaired", "problems", "present", "missing")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[SwitchStatus.State]
        CONNECTING: _ClassVar[SwitchStatus.State]
        PROGRAMMING: _ClassVar[SwitchStatus.State]
        VERIFIED: _ClassVar[SwitchStatus.State]
        FAILED: _ClassVar[SwitchStatus.State]
    STATE_UNSPECIFIED: SwitchStatus.State
    CONNECTING: SwitchStatus.State
    PROGRAMMING: SwitchStatus.State
    VERIFIED: SwitchStatus.State
    FAILED: SwitchStatus.State
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    REPAIRED_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: SwitchStatus.State
    entries: int
    repaired: int
    problems: _containers.RepeatedScalarFieldContainer[str]
    present: int
    missing: int
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[SwitchStatus.State, str]] = ..., entries: _Optional[int] = ..., repaired: _Optional[int] = ..., problems: _Optional[_Iterable[str]] = ..., present: _Optional[int] = ..., missing: _Optional[int] = ...) -> None: ...

class GetTablesRequest(_message.Message):
    __slots__ = ("pattern", "entries")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    entries: bool
    def __init__(self, pattern: _Optional[str] = ..., entries: _Optional[bool] = ...) -> None: ...

class GetTablesResponse(_message.Message):
    __slots__ = ("switches",)
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    switches: _containers.RepeatedCompositeFieldContainer[SwitchTables]
    def __init__(self, switches: _Optional[_Iterable[_Union[SwitchTables, _Mapping]]] = ...) -> None: ...

class SwitchTables(_message.Message):
    __slots__ = ("switch", "tables", "problems")
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    switch: str
    tables: _containers.RepeatedCompositeFieldContainer[Table]
    problems: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, switch: _Optional[str] = ..., tables: _Optional[_Iterable[_Union[Table, _Mapping]]] = ..., problems: _Optional[_Iterable[str]] = ...) -> None: ...

class Table(_message.Message):
    __slots__ = ("name", "expected", "present", "missing", "wrong", "superfluous", "packets", "bytes", "entries")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    WRONG_FIELD_NUMBER: _ClassVar[int]
    SUPERFLUOUS_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    name: str
    expected: int
    present: int
    missing: int
    wrong: int
    superfluous: int
    packets: int
    bytes: int
    entries: _containers.RepeatedCompositeFieldContainer[TableEntry]
    def __init__(self, name: _Optional[str] = ..., expected: _Optional[int] = ..., present: _Optional[int] = ..., missing: _Optional[int] = ..., wrong: _Optional[int] = ..., superfluous: _Optional[int] = ..., packets: _Optional[int] = ..., bytes: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[TableEntry, _Mapping]]] = ...) -> None: ...

class TableEntry(_message.Message):
    __slots__ = ("match", "action", "packets", "bytes")
    MATCH_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    match: str
    action: str
    packets: int
    bytes: int
    def __init__(self, match: _Optional[str] = ..., action: _Optional[str] = ..., packets: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class ChangeTableRequest(_message.Message):
    __slots__ = ("pattern", "change", "table", "match", "action", "args", "priority")
    class Change(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CHANGE_UNSPECIFIED: _ClassVar[ChangeTableRequest.Change]
        ADD: _ClassVar[ChangeTableRequest.Change]
        MODIFY: _ClassVar[ChangeTableRequest.Change]
        DELETE: _ClassVar[ChangeTableRequest.Change]
    CHANGE_UNSPECIFIED: ChangeTableRequest.Change
    ADD: ChangeTableRequest.Change
    MODIFY: ChangeTableRequest.Change
    DELETE: ChangeTableRequest.Change
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    change: ChangeTableRequest.Change
    table: str
    match: _containers.RepeatedScalarFieldContainer[str]
    action: str
    args: _containers.RepeatedScalarFieldContainer[str]
    priority: int
    def __init__(self, pattern: _Optional[str] = ..., change: _Optional[_Union[ChangeTableRequest.Change, str]] = ..., table: _Optional[str] = ..., match: _Optional[_Iterable[str]] = ..., action: _Optional[str] = ..., args: _Optional[_Iterable[str]] = ..., priority: _Optional[int] = ...) -> None: ...

class ChangeTableResponse(_message.Message):
    __slots__ = ("switches",)
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    switches: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, switches: _Optional[_Iterable[str]] = ...) -> None: ...

class ListHandEntriesRequest(_message.Message):
    __slots__ = ("pattern",)
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    def __init__(self, pattern: _Optional[str] = ...) -> None: ...

class ListHandEntriesResponse(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[HandEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[HandEntry, _Mapping]]] = ...) -> None: ...

class HandEntry(_message.Message):
    __slots__ = ("switch", "table", "match", "priority", "deleted")
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    switch: str
    table: str
    match: str
    priority: int
    deleted: bool
    def __init__(self, switch: _Optional[str] = ..., table: _Optional[str] = ..., match: _Optional[str] = ..., priority: _Optional[int] = ..., deleted: _Optional[bool] = ...) -> None: ...

class RestoreTablesRequest(_message.Message):
    __slots__ = ("pattern",)
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    def __init__(self, pattern: _Optional[str] = ...) -> None: ...

class RestoreTablesResponse(_message.Message):
    __slots__ = ("changes",)
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    changes: int
    def __init__(self, changes: _Optional[int] = ...) -> None: ...

class LoadProgramRequest(_message.Message):
    __slots__ = ("name", "json", "p4info")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    P4INFO_FIELD_NUMBER: _ClassVar[int]
    name: str
    json: bytes
    p4info: bytes
    def __init__(self, name: _Optional[str] = ..., json: _Optional[bytes] = ..., p4info: _Optional[bytes] = ...) -> None: ...

class LoadProgramResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetCountersRequest(_message.Message):
    __slots__ = ("pattern",)
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    def __init__(self, pattern: _Optional[str] = ...) -> None: ...

class GetCountersResponse(_message.Message):
    __slots__ = ("switches",)
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    switches: _containers.RepeatedCompositeFieldContainer[SwitchCounters]
    def __init__(self, switches: _Optional[_Iterable[_Union[SwitchCounters, _Mapping]]] = ...) -> None: ...

class SwitchCounters(_message.Message):
    __slots__ = ("switch", "drops", "ports", "problem")
    SWITCH_FIELD_NUMBER: _ClassVar[int]
    DROPS_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    switch: str
    drops: _containers.RepeatedCompositeFieldContainer[Count]
    ports: _containers.RepeatedCompositeFieldContainer[PortCounters]
    problem: str
    def __init__(self, switch: _Optional[str] = ..., drops: _Optional[_Iterable[_Union[Count, _Mapping]]] = ..., ports: _Optional[_Iterable[_Union[PortCounters, _Mapping]]] = ..., problem: _Optional[str] = ...) -> None: ...

class Count(_message.Message):
    __slots__ = ("name", "packets", "bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    packets: int
    bytes: int
    def __init__(self, name: _Optional[str] = ..., packets: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class PortCounters(_message.Message):
    __slots__ = ("port", "link", "counts")
    PORT_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    port: int
    link: str
    counts: _containers.RepeatedCompositeFieldContainer[Count]
    def __init__(self, port: _Optional[int] = ..., link: _Optional[str] = ..., counts: _Optional[_Iterable[_Union[Count, _Mapping]]] = ...) -> None: ...

class GetNicCountersRequest(_message.Message):
    __slots__ = ("host", "queue_pairs")
    HOST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_PAIRS_FIELD_NUMBER: _ClassVar[int]
    host: str
    queue_pairs: bool
    def __init__(self, host: _Optional[str] = ..., queue_pairs: _Optional[bool] = ...) -> None: ...

class GetNicCountersResponse(_message.Message):
    __slots__ = ("nics",)
    NICS_FIELD_NUMBER: _ClassVar[int]
    nics: _containers.RepeatedCompositeFieldContainer[NicCounters]
    def __init__(self, nics: _Optional[_Iterable[_Union[NicCounters, _Mapping]]] = ...) -> None: ...

class NicCounters(_message.Message):
    __slots__ = ("host", "counters", "ports", "queue_pairs", "problem")
    class CountersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    HOST_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_PAIRS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    host: str
    counters: _containers.ScalarMap[str, int]
    ports: _containers.RepeatedCompositeFieldContainer[NamedCounters]
    queue_pairs: _containers.RepeatedCompositeFieldContainer[QueuePairCounters]
    problem: str
    def __init__(self, host: _Optional[str] = ..., counters: _Optional[_Mapping[str, int]] = ..., ports: _Optional[_Iterable[_Union[NamedCounters, _Mapping]]] = ..., queue_pairs: _Optional[_Iterable[_Union[QueuePairCounters, _Mapping]]] = ..., problem: _Optional[str] = ...) -> None: ...

class NamedCounters(_message.Message):
    __slots__ = ("counters",)
    class CountersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    counters: _containers.ScalarMap[str, int]
    def __init__(self, counters: _Optional[_Mapping[str, int]] = ...) -> None: ...

class QueuePairCounters(_message.Message):
    __slots__ = ("qpn", "counters")
    class CountersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    QPN_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    qpn: int
    counters: _containers.ScalarMap[str, int]
    def __init__(self, qpn: _Optional[int] = ..., counters: _Optional[_Mapping[str, int]] = ...) -> None: ...

class ListLinksRequest(_message.Message):
    __slots__ = ("pattern",)
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    def __init__(self, pattern: _Optional[str] = ...) -> None: ...

class ListLinksResponse(_message.Message):
    __slots__ = ("links",)
    LINKS_FIELD_NUMBER: _ClassVar[int]
    links: _containers.RepeatedCompositeFieldContainer[Link]
    def __init__(self, links: _Optional[_Iterable[_Union[Link, _Mapping]]] = ...) -> None: ...

class Link(_message.Message):
    __slots__ = ("name", "kind", "plane", "lower", "upper", "rate_bps", "up", "upward", "downward", "fault_ids", "read_at_ns")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[Link.Kind]
        NIC_T0: _ClassVar[Link.Kind]
        T0_T1: _ClassVar[Link.Kind]
        T1_T2: _ClassVar[Link.Kind]
    KIND_UNSPECIFIED: Link.Kind
    NIC_T0: Link.Kind
    T0_T1: Link.Kind
    T1_T2: Link.Kind
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PLANE_FIELD_NUMBER: _ClassVar[int]
    LOWER_FIELD_NUMBER: _ClassVar[int]
    UPPER_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    UPWARD_FIELD_NUMBER: _ClassVar[int]
    DOWNWARD_FIELD_NUMBER: _ClassVar[int]
    FAULT_IDS_FIELD_NUMBER: _ClassVar[int]
    READ_AT_NS_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: Link.Kind
    plane: int
    lower: End
    upper: End
    rate_bps: int
    up: bool
    upward: Traffic
    downward: Traffic
    fault_ids: _containers.RepeatedScalarFieldContainer[str]
    read_at_ns: int
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[Link.Kind, str]] = ..., plane: _Optional[int] = ..., lower: _Optional[_Union[End, _Mapping]] = ..., upper: _Optional[_Union[End, _Mapping]] = ..., rate_bps: _Optional[int] = ..., up: _Optional[bool] = ..., upward: _Optional[_Union[Traffic, _Mapping]] = ..., downward: _Optional[_Union[Traffic, _Mapping]] = ..., fault_ids: _Optional[_Iterable[str]] = ..., read_at_ns: _Optional[int] = ...) -> None: ...

class Traffic(_message.Message):
    __slots__ = ("packets", "bytes")
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    packets: int
    bytes: int
    def __init__(self, packets: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class FaultKind(_message.Message):
    __slots__ = ("kind", "parameters")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: FaultParameter
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[FaultParameter, _Mapping]] = ...) -> None: ...
    KIND_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    parameters: _containers.MessageMap[str, FaultParameter]
    def __init__(self, kind: _Optional[str] = ..., parameters: _Optional[_Mapping[str, FaultParameter]] = ...) -> None: ...

class FaultParameter(_message.Message):
    __slots__ = ("text", "whole", "real", "flag")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    REAL_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    text: str
    whole: int
    real: float
    flag: bool
    def __init__(self, text: _Optional[str] = ..., whole: _Optional[int] = ..., real: _Optional[float] = ..., flag: _Optional[bool] = ...) -> None: ...

class InjectFaultRequest(_message.Message):
    __slots__ = ("fault", "start_after_ns", "start_at_ns", "duration_ns", "owner")
    FAULT_FIELD_NUMBER: _ClassVar[int]
    START_AFTER_NS_FIELD_NUMBER: _ClassVar[int]
    START_AT_NS_FIELD_NUMBER: _ClassVar[int]
    DURATION_NS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    fault: FaultKind
    start_after_ns: int
    start_at_ns: int
    duration_ns: int
    owner: str
    def __init__(self, fault: _Optional[_Union[FaultKind, _Mapping]] = ..., start_after_ns: _Optional[int] = ..., start_at_ns: _Optional[int] = ..., duration_ns: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

class Fault(_message.Message):
    __slots__ = ("id", "fault", "state", "owner", "links", "switches", "starts_at_ns", "ends_at_ns", "began_at_ns", "applied_at_ns", "problem", "cleared_at_ns")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[Fault.State]
        PENDING: _ClassVar[Fault.State]
        ACTIVE: _ClassVar[Fault.State]
        CLEARED: _ClassVar[Fault.State]
    STATE_UNSPECIFIED: Fault.State
    PENDING: Fault.State
    ACTIVE: Fault.State
    CLEARED: Fault.State
    ID_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    STARTS_AT_NS_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_NS_FIELD_NUMBER: _ClassVar[int]
    BEGAN_AT_NS_FIELD_NUMBER: _ClassVar[int]
    APPLIED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    CLEARED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    id: str
    fault: FaultKind
    state: Fault.State
    owner: str
    links: _containers.RepeatedScalarFieldContainer[str]
    switches: _containers.RepeatedScalarFieldContainer[str]
    starts_at_ns: int
    ends_at_ns: int
    began_at_ns: int
    applied_at_ns: int
    problem: str
    cleared_at_ns: int
    def __init__(self, id: _Optional[str] = ..., fault: _Optional[_Union[FaultKind, _Mapping]] = ..., state: _Optional[_Union[Fault.State, str]] = ..., owner: _Optional[str] = ..., links: _Optional[_Iterable[str]] = ..., switches: _Optional[_Iterable[str]] = ..., starts_at_ns: _Optional[int] = ..., ends_at_ns: _Optional[int] = ..., began_at_ns: _Optional[int] = ..., applied_at_ns: _Optional[int] = ..., problem: _Optional[str] = ..., cleared_at_ns: _Optional[int] = ...) -> None: ...

class ClearFaultsRequest(_message.Message):
    __slots__ = ("id", "link_pattern", "owner", "all")
    ID_FIELD_NUMBER: _ClassVar[int]
    LINK_PATTERN_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    id: str
    link_pattern: str
    owner: str
    all: bool
    def __init__(self, id: _Optional[str] = ..., link_pattern: _Optional[str] = ..., owner: _Optional[str] = ..., all: _Optional[bool] = ...) -> None: ...

class ClearFaultsResponse(_message.Message):
    __slots__ = ("faults", "links", "began_at_ns", "applied_at_ns", "remaining")
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    BEGAN_AT_NS_FIELD_NUMBER: _ClassVar[int]
    APPLIED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    faults: _containers.RepeatedCompositeFieldContainer[Fault]
    links: _containers.RepeatedScalarFieldContainer[str]
    began_at_ns: int
    applied_at_ns: int
    remaining: _containers.RepeatedCompositeFieldContainer[Fault]
    def __init__(self, faults: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ..., links: _Optional[_Iterable[str]] = ..., began_at_ns: _Optional[int] = ..., applied_at_ns: _Optional[int] = ..., remaining: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ...) -> None: ...

class ListFaultsRequest(_message.Message):
    __slots__ = ("cleared",)
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    cleared: bool
    def __init__(self, cleared: _Optional[bool] = ...) -> None: ...

class ListFaultsResponse(_message.Message):
    __slots__ = ("faults",)
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    faults: _containers.RepeatedCompositeFieldContainer[Fault]
    def __init__(self, faults: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ...) -> None: ...

class HoldLeaseRequest(_message.Message):
    __slots__ = ("owner",)
    OWNER_FIELD_NUMBER: _ClassVar[int]
    owner: str
    def __init__(self, owner: _Optional[str] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("owner",)
    OWNER_FIELD_NUMBER: _ClassVar[int]
    owner: str
    def __init__(self, owner: _Optional[str] = ...) -> None: ...

class ListDeniedRequest(_message.Message):
    __slots__ = ("host",)
    HOST_FIELD_NUMBER: _ClassVar[int]
    host: str
    def __init__(self, host: _Optional[str] = ...) -> None: ...

class ListDeniedResponse(_message.Message):
    __slots__ = ("paths",)
    PATHS_FIELD_NUMBER: _ClassVar[int]
    paths: _containers.RepeatedCompositeFieldContainer[DeniedPath]
    def __init__(self, paths: _Optional[_Iterable[_Union[DeniedPath, _Mapping]]] = ...) -> None: ...

class DeniedPath(_message.Message):
    __slots__ = ("host", "peer", "ev")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    EV_FIELD_NUMBER: _ClassVar[int]
    host: str
    peer: str
    ev: int
    def __init__(self, host: _Optional[str] = ..., peer: _Optional[str] = ..., ev: _Optional[int] = ...) -> None: ...

class SetDeniedRequest(_message.Message):
    __slots__ = ("host", "peer", "evs", "denied")
    HOST_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    EVS_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    host: str
    peer: str
    evs: _containers.RepeatedScalarFieldContainer[int]
    denied: bool
    def __init__(self, host: _Optional[str] = ..., peer: _Optional[str] = ..., evs: _Optional[_Iterable[int]] = ..., denied: _Optional[bool] = ...) -> None: ...

class SetDeniedResponse(_message.Message):
    __slots__ = ("paths",)
    PATHS_FIELD_NUMBER: _ClassVar[int]
    paths: _containers.RepeatedCompositeFieldContainer[DeniedPath]
    def __init__(self, paths: _Optional[_Iterable[_Union[DeniedPath, _Mapping]]] = ...) -> None: ...

class WatchEventsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Event(_message.Message):
    __slots__ = ("number", "at_ns", "kind", "name", "detail", "fault", "dropped")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        KIND_UNSPECIFIED: _ClassVar[Event.Kind]
        SUBSCRIBED: _ClassVar[Event.Kind]
        FAULT_ADDED: _ClassVar[Event.Kind]
        FAULT_ACTIVE: _ClassVar[Event.Kind]
        FAULT_CLEARED: _ClassVar[Event.Kind]
        SWITCH_LOST: _ClassVar[Event.Kind]
        SWITCH_RETURNED: _ClassVar[Event.Kind]
        ENTRIES_REPAIRED: _ClassVar[Event.Kind]
        LINK_DOWN: _ClassVar[Event.Kind]
        LINK_UP: _ClassVar[Event.Kind]
        DENYLIST_CHANGED: _ClassVar[Event.Kind]
        FAULT_CHANGED: _ClassVar[Event.Kind]
        REROUTED: _ClassVar[Event.Kind]
    KIND_UNSPECIFIED: Event.Kind
    SUBSCRIBED: Event.Kind
    FAULT_ADDED: Event.Kind
    FAULT_ACTIVE: Event.Kind
    FAULT_CLEARED: Event.Kind
    SWITCH_LOST: Event.Kind
    SWITCH_RETURNED: Event.Kind
    ENTRIES_REPAIRED: Event.Kind
    LINK_DOWN: Event.Kind
    LINK_UP: Event.Kind
    DENYLIST_CHANGED: Event.Kind
    FAULT_CHANGED: Event.Kind
    REROUTED: Event.Kind
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_NS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    number: int
    at_ns: int
    kind: Event.Kind
    name: str
    detail: str
    fault: Fault
    dropped: int
    def __init__(self, number: _Optional[int] = ..., at_ns: _Optional[int] = ..., kind: _Optional[_Union[Event.Kind, str]] = ..., name: _Optional[str] = ..., detail: _Optional[str] = ..., fault: _Optional[_Union[Fault, _Mapping]] = ..., dropped: _Optional[int] = ...) -> None: ...

class GetClockRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Clock(_message.Message):
    __slots__ = ("monotonic_ns", "epoch_ns")
    MONOTONIC_NS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_NS_FIELD_NUMBER: _ClassVar[int]
    monotonic_ns: int
    epoch_ns: int
    def __init__(self, monotonic_ns: _Optional[int] = ..., epoch_ns: _Optional[int] = ...) -> None: ...

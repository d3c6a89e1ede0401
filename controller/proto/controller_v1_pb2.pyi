from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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
    __slots__ = ("name", "state", "entries", "repaired", "problems")
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
    name: str
    state: SwitchStatus.State
    entries: int
    repaired: int
    problems: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[SwitchStatus.State, str]] = ..., entries: _Optional[int] = ..., repaired: _Optional[int] = ..., problems: _Optional[_Iterable[str]] = ...) -> None: ...

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
    KIND_UNSPECIFIED: Link.Kind
    NIC_T0: Link.Kind
    T0_T1: Link.Kind
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

class End(_message.Message):
    __slots__ = ("node", "port", "interface")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    node: str
    port: int
    interface: str
    def __init__(self, node: _Optional[str] = ..., port: _Optional[int] = ..., interface: _Optional[str] = ...) -> None: ...

class Traffic(_message.Message):
    __slots__ = ("packets", "bytes")
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    packets: int
    bytes: int
    def __init__(self, packets: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class InjectFaultRequest(_message.Message):
    __slots__ = ("pattern", "link_down", "loss", "corruption", "switch_silent", "path_loss", "owner")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    LINK_DOWN_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    CORRUPTION_FIELD_NUMBER: _ClassVar[int]
    SWITCH_SILENT_FIELD_NUMBER: _ClassVar[int]
    PATH_LOSS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    link_down: LinkDown
    loss: Loss
    corruption: Corruption
    switch_silent: SwitchSilent
    path_loss: PathLoss
    owner: str
    def __init__(self, pattern: _Optional[str] = ..., link_down: _Optional[_Union[LinkDown, _Mapping]] = ..., loss: _Optional[_Union[Loss, _Mapping]] = ..., corruption: _Optional[_Union[Corruption, _Mapping]] = ..., switch_silent: _Optional[_Union[SwitchSilent, _Mapping]] = ..., path_loss: _Optional[_Union[PathLoss, _Mapping]] = ..., owner: _Optional[str] = ...) -> None: ...

class LinkDown(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Loss(_message.Message):
    __slots__ = ("probability", "towards")
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    TOWARDS_FIELD_NUMBER: _ClassVar[int]
    probability: float
    towards: str
    def __init__(self, probability: _Optional[float] = ..., towards: _Optional[str] = ...) -> None: ...

class Corruption(_message.Message):
    __slots__ = ("probability", "towards")
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    TOWARDS_FIELD_NUMBER: _ClassVar[int]
    probability: float
    towards: str
    def __init__(self, probability: _Optional[float] = ..., towards: _Optional[str] = ...) -> None: ...

class SwitchSilent(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PathLoss(_message.Message):
    __slots__ = ("entropy_value", "probability", "source", "destination")
    ENTROPY_VALUE_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_FIELD_NUMBER: _ClassVar[int]
    entropy_value: int
    probability: float
    source: str
    destination: str
    def __init__(self, entropy_value: _Optional[int] = ..., probability: _Optional[float] = ..., source: _Optional[str] = ..., destination: _Optional[str] = ...) -> None: ...

class Fault(_message.Message):
    __slots__ = ("id", "pattern", "links", "link_down", "loss", "corruption", "switch_silent", "path_loss", "switches", "began_at_ns", "applied_at_ns", "owner")
    ID_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    LINK_DOWN_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    CORRUPTION_FIELD_NUMBER: _ClassVar[int]
    SWITCH_SILENT_FIELD_NUMBER: _ClassVar[int]
    PATH_LOSS_FIELD_NUMBER: _ClassVar[int]
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    BEGAN_AT_NS_FIELD_NUMBER: _ClassVar[int]
    APPLIED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    id: str
    pattern: str
    links: _containers.RepeatedScalarFieldContainer[str]
    link_down: LinkDown
    loss: Loss
    corruption: Corruption
    switch_silent: SwitchSilent
    path_loss: PathLoss
    switches: _containers.RepeatedScalarFieldContainer[str]
    began_at_ns: int
    applied_at_ns: int
    owner: str
    def __init__(self, id: _Optional[str] = ..., pattern: _Optional[str] = ..., links: _Optional[_Iterable[str]] = ..., link_down: _Optional[_Union[LinkDown, _Mapping]] = ..., loss: _Optional[_Union[Loss, _Mapping]] = ..., corruption: _Optional[_Union[Corruption, _Mapping]] = ..., switch_silent: _Optional[_Union[SwitchSilent, _Mapping]] = ..., path_loss: _Optional[_Union[PathLoss, _Mapping]] = ..., switches: _Optional[_Iterable[str]] = ..., began_at_ns: _Optional[int] = ..., applied_at_ns: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("cleared", "links", "began_at_ns", "applied_at_ns")
    CLEARED_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    BEGAN_AT_NS_FIELD_NUMBER: _ClassVar[int]
    APPLIED_AT_NS_FIELD_NUMBER: _ClassVar[int]
    cleared: _containers.RepeatedCompositeFieldContainer[Fault]
    links: _containers.RepeatedScalarFieldContainer[str]
    began_at_ns: int
    applied_at_ns: int
    def __init__(self, cleared: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ..., links: _Optional[_Iterable[str]] = ..., began_at_ns: _Optional[int] = ..., applied_at_ns: _Optional[int] = ...) -> None: ...

class ListFaultsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListFaultsResponse(_message.Message):
    __slots__ = ("faults",)
    FAULTS_FIELD_NUMBER: _ClassVar[int]
    faults: _containers.RepeatedCompositeFieldContainer[Fault]
    def __init__(self, faults: _Optional[_Iterable[_Union[Fault, _Mapping]]] = ...) -> None: ...

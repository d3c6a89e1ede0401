from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StartRequest(_message.Message):
    __slots__ = ("rate", "feed")
    RATE_FIELD_NUMBER: _ClassVar[int]
    FEED_FIELD_NUMBER: _ClassVar[int]
    rate: float
    feed: bool
    def __init__(self, rate: _Optional[float] = ..., feed: _Optional[bool] = ...) -> None: ...

class StopRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class State(_message.Message):
    __slots__ = ("running", "rate", "round_seconds", "seconds", "suspected", "links", "unreachable", "feeding", "denied", "slow_ports")
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    ROUND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    SUSPECTED_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    FEEDING_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    SLOW_PORTS_FIELD_NUMBER: _ClassVar[int]
    running: bool
    rate: float
    round_seconds: float
    seconds: float
    suspected: _containers.RepeatedCompositeFieldContainer[SuspectedFault]
    links: _containers.RepeatedCompositeFieldContainer[LinkHealth]
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    feeding: bool
    denied: int
    slow_ports: _containers.RepeatedCompositeFieldContainer[SlowPort]
    def __init__(self, running: _Optional[bool] = ..., rate: _Optional[float] = ..., round_seconds: _Optional[float] = ..., seconds: _Optional[float] = ..., suspected: _Optional[_Iterable[_Union[SuspectedFault, _Mapping]]] = ..., links: _Optional[_Iterable[_Union[LinkHealth, _Mapping]]] = ..., unreachable: _Optional[_Iterable[str]] = ..., feeding: _Optional[bool] = ..., denied: _Optional[int] = ..., slow_ports: _Optional[_Iterable[_Union[SlowPort, _Mapping]]] = ...) -> None: ...

class SlowPort(_message.Message):
    __slots__ = ("name", "own", "peers")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    own: bool
    peers: int
    def __init__(self, name: _Optional[str] = ..., own: _Optional[bool] = ..., peers: _Optional[int] = ...) -> None: ...

class SuspectedFault(_message.Message):
    __slots__ = ("part", "name", "plane", "direction", "loss", "confidence", "since_ns", "rivals")
    class Part(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PART_UNSPECIFIED: _ClassVar[SuspectedFault.Part]
        NIC_T0: _ClassVar[SuspectedFault.Part]
        T0_T1: _ClassVar[SuspectedFault.Part]
        SWITCH: _ClassVar[SuspectedFault.Part]
        PATH: _ClassVar[SuspectedFault.Part]
        T1_T2: _ClassVar[SuspectedFault.Part]
    PART_UNSPECIFIED: SuspectedFault.Part
    NIC_T0: SuspectedFault.Part
    T0_T1: SuspectedFault.Part
    SWITCH: SuspectedFault.Part
    PATH: SuspectedFault.Part
    T1_T2: SuspectedFault.Part
    class Direction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DIRECTION_UNSPECIFIED: _ClassVar[SuspectedFault.Direction]
        BOTH: _ClassVar[SuspectedFault.Direction]
        UP: _ClassVar[SuspectedFault.Direction]
        DOWN: _ClassVar[SuspectedFault.Direction]
    DIRECTION_UNSPECIFIED: SuspectedFault.Direction
    BOTH: SuspectedFault.Direction
    UP: SuspectedFault.Direction
    DOWN: SuspectedFault.Direction
    PART_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PLANE_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    SINCE_NS_FIELD_NUMBER: _ClassVar[int]
    RIVALS_FIELD_NUMBER: _ClassVar[int]
    part: SuspectedFault.Part
    name: str
    plane: int
    direction: SuspectedFault.Direction
    loss: float
    confidence: float
    since_ns: int
    rivals: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, part: _Optional[_Union[SuspectedFault.Part, str]] = ..., name: _Optional[str] = ..., plane: _Optional[int] = ..., direction: _Optional[_Union[SuspectedFault.Direction, str]] = ..., loss: _Optional[float] = ..., confidence: _Optional[float] = ..., since_ns: _Optional[int] = ..., rivals: _Optional[_Iterable[str]] = ...) -> None: ...

class LinkHealth(_message.Message):
    __slots__ = ("name", "sent", "lost")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    name: str
    sent: int
    lost: int
    def __init__(self, name: _Optional[str] = ..., sent: _Optional[int] = ..., lost: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("running", "rate", "round_seconds", "seconds", "verdicts", "links", "silent", "feeding", "denied")
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    ROUND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    FEEDING_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    running: bool
    rate: float
    round_seconds: float
    seconds: float
    verdicts: _containers.RepeatedCompositeFieldContainer[Verdict]
    links: _containers.RepeatedCompositeFieldContainer[LinkHealth]
    silent: _containers.RepeatedScalarFieldContainer[str]
    feeding: bool
    denied: int
    def __init__(self, running: _Optional[bool] = ..., rate: _Optional[float] = ..., round_seconds: _Optional[float] = ..., seconds: _Optional[float] = ..., verdicts: _Optional[_Iterable[_Union[Verdict, _Mapping]]] = ..., links: _Optional[_Iterable[_Union[LinkHealth, _Mapping]]] = ..., silent: _Optional[_Iterable[str]] = ..., feeding: _Optional[bool] = ..., denied: _Optional[int] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("part", "name", "plane", "direction", "loss", "confidence", "since_ns", "rivals")
    class Part(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PART_UNSPECIFIED: _ClassVar[Verdict.Part]
        NIC_T0: _ClassVar[Verdict.Part]
        T0_T1: _ClassVar[Verdict.Part]
        SWITCH: _ClassVar[Verdict.Part]
        PATH: _ClassVar[Verdict.Part]
    PART_UNSPECIFIED: Verdict.Part
    NIC_T0: Verdict.Part
    T0_T1: Verdict.Part
    SWITCH: Verdict.Part
    PATH: Verdict.Part
    class Direction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DIRECTION_UNSPECIFIED: _ClassVar[Verdict.Direction]
        BOTH: _ClassVar[Verdict.Direction]
        UP: _ClassVar[Verdict.Direction]
        DOWN: _ClassVar[Verdict.Direction]
    DIRECTION_UNSPECIFIED: Verdict.Direction
    BOTH: Verdict.Direction
    UP: Verdict.Direction
    DOWN: Verdict.Direction
    PART_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PLANE_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    SINCE_NS_FIELD_NUMBER: _ClassVar[int]
    RIVALS_FIELD_NUMBER: _ClassVar[int]
    part: Verdict.Part
    name: str
    plane: int
    direction: Verdict.Direction
    loss: float
    confidence: float
    since_ns: int
    rivals: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, part: _Optional[_Union[Verdict.Part, str]] = ..., name: _Optional[str] = ..., plane: _Optional[int] = ..., direction: _Optional[_Union[Verdict.Direction, str]] = ..., loss: _Optional[float] = ..., confidence: _Optional[float] = ..., since_ns: _Optional[int] = ..., rivals: _Optional[_Iterable[str]] = ...) -> None: ...

class LinkHealth(_message.Message):
    __slots__ = ("name", "sent", "lost")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    name: str
    sent: int
    lost: int
    def __init__(self, name: _Optional[str] = ..., sent: _Optional[int] = ..., lost: _Optional[int] = ...) -> None: ...

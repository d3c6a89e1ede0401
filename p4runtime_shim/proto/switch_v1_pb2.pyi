from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetSwitchesRequest(_message.Message):
    __slots__ = ("device_ids", "reset_peaks")
    DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    RESET_PEAKS_FIELD_NUMBER: _ClassVar[int]
    device_ids: _containers.RepeatedScalarFieldContainer[int]
    reset_peaks: bool
    def __init__(self, device_ids: _Optional[_Iterable[int]] = ..., reset_peaks: _Optional[bool] = ...) -> None: ...

class GetSwitchesResponse(_message.Message):
    __slots__ = ("switches",)
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    switches: _containers.RepeatedCompositeFieldContainer[Switch]
    def __init__(self, switches: _Optional[_Iterable[_Union[Switch, _Mapping]]] = ...) -> None: ...

class Switch(_message.Message):
    __slots__ = ("device_id", "name", "ports", "drops", "capture", "tracing", "packet_in")
    class DropsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    DROPS_FIELD_NUMBER: _ClassVar[int]
    CAPTURE_FIELD_NUMBER: _ClassVar[int]
    TRACING_FIELD_NUMBER: _ClassVar[int]
    PACKET_IN_FIELD_NUMBER: _ClassVar[int]
    device_id: int
    name: str
    ports: _containers.RepeatedCompositeFieldContainer[Port]
    drops: _containers.ScalarMap[str, int]
    capture: Capture
    tracing: bool
    packet_in: PacketIn
    def __init__(self, device_id: _Optional[int] = ..., name: _Optional[str] = ..., ports: _Optional[_Iterable[_Union[Port, _Mapping]]] = ..., drops: _Optional[_Mapping[str, int]] = ..., capture: _Optional[_Union[Capture, _Mapping]] = ..., tracing: _Optional[bool] = ..., packet_in: _Optional[_Union[PacketIn, _Mapping]] = ...) -> None: ...

class Port(_message.Message):
    __slots__ = ("port", "interface", "up", "held_down", "rate_bps", "rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "queues", "drops", "driver", "pauses_sent", "pauses_received", "arrival_delay_ns", "departure_delay_ns")
    class DropsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class DriverEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    PORT_FIELD_NUMBER: _ClassVar[int]
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    HELD_DOWN_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    RX_PACKETS_FIELD_NUMBER: _ClassVar[int]
    RX_BYTES_FIELD_NUMBER: _ClassVar[int]
    TX_PACKETS_FIELD_NUMBER: _ClassVar[int]
    TX_BYTES_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    DROPS_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    PAUSES_SENT_FIELD_NUMBER: _ClassVar[int]
    PAUSES_RECEIVED_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_DELAY_NS_FIELD_NUMBER: _ClassVar[int]
    DEPARTURE_DELAY_NS_FIELD_NUMBER: _ClassVar[int]
    port: int
    interface: str
    up: bool
    held_down: bool
    rate_bps: int
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    drops: _containers.ScalarMap[str, int]
    driver: _containers.ScalarMap[str, int]
    pauses_sent: int
    pauses_received: int
    arrival_delay_ns: int
    departure_delay_ns: int
    def __init__(self, port: _Optional[int] = ..., interface: _Optional[str] = ..., up: _Optional[bool] = ..., held_down: _Optional[bool] = ..., rate_bps: _Optional[int] = ..., rx_packets: _Optional[int] = ..., rx_bytes: _Optional[int] = ..., tx_packets: _Optional[int] = ..., tx_bytes: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., drops: _Optional[_Mapping[str, int]] = ..., driver: _Optional[_Mapping[str, int]] = ..., pauses_sent: _Optional[int] = ..., pauses_received: _Optional[int] = ..., arrival_delay_ns: _Optional[int] = ..., departure_delay_ns: _Optional[int] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ("priority", "packets", "bytes", "peak_packets", "peak_bytes", "max_packets", "max_bytes", "drops")
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PEAK_PACKETS_FIELD_NUMBER: _ClassVar[int]
    PEAK_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_PACKETS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    DROPS_FIELD_NUMBER: _ClassVar[int]
    priority: int
    packets: int
    bytes: int
    peak_packets: int
    peak_bytes: int
    max_packets: int
    max_bytes: int
    drops: int
    def __init__(self, priority: _Optional[int] = ..., packets: _Optional[int] = ..., bytes: _Optional[int] = ..., peak_packets: _Optional[int] = ..., peak_bytes: _Optional[int] = ..., max_packets: _Optional[int] = ..., max_bytes: _Optional[int] = ..., drops: _Optional[int] = ...) -> None: ...

class PacketIn(_message.Message):
    __slots__ = ("packets_per_second", "delivered", "undeliverable")
    PACKETS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    UNDELIVERABLE_FIELD_NUMBER: _ClassVar[int]
    packets_per_second: int
    delivered: int
    undeliverable: int
    def __init__(self, packets_per_second: _Optional[int] = ..., delivered: _Optional[int] = ..., undeliverable: _Optional[int] = ...) -> None: ...

class Capture(_message.Message):
    __slots__ = ("directory", "on", "frames", "lost", "problem")
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    directory: str
    on: bool
    frames: int
    lost: int
    problem: str
    def __init__(self, directory: _Optional[str] = ..., on: _Optional[bool] = ..., frames: _Optional[int] = ..., lost: _Optional[int] = ..., problem: _Optional[str] = ...) -> None: ...

class GetDelaysRequest(_message.Message):
    __slots__ = ("device_ids", "measure")
    DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    MEASURE_FIELD_NUMBER: _ClassVar[int]
    device_ids: _containers.RepeatedScalarFieldContainer[int]
    measure: bool
    def __init__(self, device_ids: _Optional[_Iterable[int]] = ..., measure: _Optional[bool] = ...) -> None: ...

class GetDelaysResponse(_message.Message):
    __slots__ = ("switches",)
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    switches: _containers.RepeatedCompositeFieldContainer[SwitchDelays]
    def __init__(self, switches: _Optional[_Iterable[_Union[SwitchDelays, _Mapping]]] = ...) -> None: ...

class SwitchDelays(_message.Message):
    __slots__ = ("device_id", "name", "ports")
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    device_id: int
    name: str
    ports: _containers.RepeatedCompositeFieldContainer[PortDelays]
    def __init__(self, device_id: _Optional[int] = ..., name: _Optional[str] = ..., ports: _Optional[_Iterable[_Union[PortDelays, _Mapping]]] = ...) -> None: ...

class PortDelays(_message.Message):
    __slots__ = ("port", "arrivals", "departures", "link_idle_ns")
    PORT_FIELD_NUMBER: _ClassVar[int]
    ARRIVALS_FIELD_NUMBER: _ClassVar[int]
    DEPARTURES_FIELD_NUMBER: _ClassVar[int]
    LINK_IDLE_NS_FIELD_NUMBER: _ClassVar[int]
    port: int
    arrivals: Delays
    departures: Delays
    link_idle_ns: int
    def __init__(self, port: _Optional[int] = ..., arrivals: _Optional[_Union[Delays, _Mapping]] = ..., departures: _Optional[_Union[Delays, _Mapping]] = ..., link_idle_ns: _Optional[int] = ...) -> None: ...

class Delays(_message.Message):
    __slots__ = ("total_ns", "histogram")
    TOTAL_NS_FIELD_NUMBER: _ClassVar[int]
    HISTOGRAM_FIELD_NUMBER: _ClassVar[int]
    total_ns: int
    histogram: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, total_ns: _Optional[int] = ..., histogram: _Optional[_Iterable[int]] = ...) -> None: ...

class SamplePortsRequest(_message.Message):
    __slots__ = ("device_ids", "keep_peaks")
    DEVICE_IDS_FIELD_NUMBER: _ClassVar[int]
    KEEP_PEAKS_FIELD_NUMBER: _ClassVar[int]
    device_ids: _containers.RepeatedScalarFieldContainer[int]
    keep_peaks: bool
    def __init__(self, device_ids: _Optional[_Iterable[int]] = ..., keep_peaks: _Optional[bool] = ...) -> None: ...

class SamplePortsResponse(_message.Message):
    __slots__ = ("switches",)
    SWITCHES_FIELD_NUMBER: _ClassVar[int]
    switches: _containers.RepeatedCompositeFieldContainer[SwitchSample]
    def __init__(self, switches: _Optional[_Iterable[_Union[SwitchSample, _Mapping]]] = ...) -> None: ...

class SwitchSample(_message.Message):
    __slots__ = ("device_id", "time_ns", "ports")
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    device_id: int
    time_ns: int
    ports: _containers.RepeatedCompositeFieldContainer[PortSample]
    def __init__(self, device_id: _Optional[int] = ..., time_ns: _Optional[int] = ..., ports: _Optional[_Iterable[_Union[PortSample, _Mapping]]] = ...) -> None: ...

class PortSample(_message.Message):
    __slots__ = ("port", "bytes", "peak_bytes", "byte_ns", "silenced_ns", "silenced_times")
    PORT_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PEAK_BYTES_FIELD_NUMBER: _ClassVar[int]
    BYTE_NS_FIELD_NUMBER: _ClassVar[int]
    SILENCED_NS_FIELD_NUMBER: _ClassVar[int]
    SILENCED_TIMES_FIELD_NUMBER: _ClassVar[int]
    port: int
    bytes: int
    peak_bytes: int
    byte_ns: int
    silenced_ns: int
    silenced_times: int
    def __init__(self, port: _Optional[int] = ..., bytes: _Optional[int] = ..., peak_bytes: _Optional[int] = ..., byte_ns: _Optional[int] = ..., silenced_ns: _Optional[int] = ..., silenced_times: _Optional[int] = ...) -> None: ...

class SetPortRequest(_message.Message):
    __slots__ = ("device_id", "port", "rate_bps", "held_down", "arrival_delay_ns", "departure_delay_ns")
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    HELD_DOWN_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_DELAY_NS_FIELD_NUMBER: _ClassVar[int]
    DEPARTURE_DELAY_NS_FIELD_NUMBER: _ClassVar[int]
    device_id: int
    port: int
    rate_bps: int
    held_down: bool
    arrival_delay_ns: int
    departure_delay_ns: int
    def __init__(self, device_id: _Optional[int] = ..., port: _Optional[int] = ..., rate_bps: _Optional[int] = ..., held_down: _Optional[bool] = ..., arrival_delay_ns: _Optional[int] = ..., departure_delay_ns: _Optional[int] = ...) -> None: ...

class SetQueueRequest(_message.Message):
    __slots__ = ("device_id", "port", "priority", "max_packets", "max_bytes")
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_PACKETS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    device_id: int
    port: int
    priority: int
    max_packets: int
    max_bytes: int
    def __init__(self, device_id: _Optional[int] = ..., port: _Optional[int] = ..., priority: _Optional[int] = ..., max_packets: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class SetPacketInRequest(_message.Message):
    __slots__ = ("device_id", "packets_per_second")
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    PACKETS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    device_id: int
    packets_per_second: int
    def __init__(self, device_id: _Optional[int] = ..., packets_per_second: _Optional[int] = ...) -> None: ...

class SetCaptureRequest(_message.Message):
    __slots__ = ("device_id", "on")
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    ON_FIELD_NUMBER: _ClassVar[int]
    device_id: int
    on: bool
    def __init__(self, device_id: _Optional[int] = ..., on: _Optional[bool] = ...) -> None: ...

class TraceRequest(_message.Message):
    __slots__ = ("device_id",)
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    device_id: int
    def __init__(self, device_id: _Optional[int] = ...) -> None: ...

class TraceLine(_message.Message):
    __slots__ = ("time_ns", "text", "lost")
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    time_ns: int
    text: str
    lost: int
    def __init__(self, time_ns: _Optional[int] = ..., text: _Optional[str] = ..., lost: _Optional[int] = ...) -> None: ...

"""Indexed counters, registers and meters: arrays that always exist and are only modified.

P4Runtime spec, sections "CounterEntry", "MeterEntry" and "RegisterEntry". An unset index means all cells, which may be
millions: such reads copy the raw cells at once and convert them to messages one by one; such writes are a single call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import TypeVar

from finsy.proto import p4d, p4i, p4r

from p4runtime_shim.entities import CounterValue, MeterColors, MeterConfig
from p4runtime_shim.server import p4data
from p4runtime_shim.server.budget import ReadBudget, WriteBudget
from p4runtime_shim.server.p4info import ArrayInfo, Schema, find
from p4runtime_shim.server.rpc_errors import invalid, out_of_range, unimplemented
from p4runtime_shim.server.switch_interface import ControlPlaneInterface
from p4runtime_shim.server.undo_log import UndoLog

_MAX_COUNT = 2**63 - 1  # int64

_T = TypeVar("_T")
_Message = p4r.CounterEntry | p4r.RegisterEntry | p4r.MeterEntry


class ExternEntries:
    """The indexed externs of one switch."""

    def __init__(self, schema: Schema, control_plane: ControlPlaneInterface) -> None:
        self._schema = schema
        self._control_plane = control_plane
        self._budget = WriteBudget()

    def begin(self) -> None:
        """Start another Write, with a new budget."""
        self._budget = WriteBudget()

    # --- counters

    def write_counter(self, update: int, message: p4r.CounterEntry, undo_log: UndoLog | None) -> None:
        """MODIFY of one cell or all."""
        array = find(self._schema.counters, message.counter_id, "counter")
        only_modify(update, f"counter {array.name}")
        indexes = _indexes(array, message)
        if not message.HasField("data"):
            return
        value, externs = counter_value(message.data), self._control_plane.externs
        if self._fills(array, message, undo_log):
            externs.counter_fill(array.name, value)
        else:
            _write_cells(array.name, indexes, value, externs.counter_read, externs.counter_write, undo_log)

    def read_counters(self, message: p4r.CounterEntry, budget: ReadBudget) -> Iterator[p4r.CounterEntry]:
        """One cell, one counter, or all counters."""
        externs = self._control_plane.externs
        found = [
            (array, _cells(array, message, budget, externs.counter_read, externs.counter_read_all))
            for array in _selected(self._schema.counters, message.counter_id, "counter")
        ]
        return (
            p4r.CounterEntry(counter_id=array.id, index=p4r.Index(index=index), data=counter_data(value))
            for array, cells in found
            for index, value in cells
        )

    # --- registers

    def write_register(self, update: int, message: p4r.RegisterEntry, undo_log: UndoLog | None) -> None:
        """MODIFY of one cell or all."""
        array = find(self._schema.registers, message.register_id, "register")
        only_modify(update, f"register {array.name}")
        value = p4data.decode_leaf(array.type_spec, self._schema.type_info, message.data, f"register {array.name}")
        indexes = _indexes(array, message)
        externs = self._control_plane.externs
        if self._fills(array, message, undo_log):
            externs.register_fill(array.name, value)
        else:
            _write_cells(array.name, indexes, value, externs.register_read, externs.register_write, undo_log)

    def read_registers(self, message: p4r.RegisterEntry, budget: ReadBudget) -> Iterator[p4r.RegisterEntry]:
        """One cell, one register, or all registers."""
        externs = self._control_plane.externs
        found = [
            (array, _cells(array, message, budget, externs.register_read, externs.register_read_all, array.weight))
            for array in _selected(self._schema.registers, message.register_id, "register")
        ]
        return (self._register_entry(array, index, value) for array, cells in found for index, value in cells)

    def _register_entry(self, array: ArrayInfo, index: int, value: int) -> p4r.RegisterEntry:
        data: p4d.P4Data = p4data.encode(array.type_spec, self._schema.type_info, iter((value,)))
        return p4r.RegisterEntry(register_id=array.id, index=p4r.Index(index=index), data=data)

    # --- meters

    def write_meter(self, update: int, message: p4r.MeterEntry, undo_log: UndoLog | None) -> None:
        """MODIFY of one cell or all; without a config, every packet is green."""
        array = find(self._schema.meters, message.meter_id, "meter")
        only_modify(update, f"meter {array.name}")
        resets = resets_colors(message, "counter_data", f"meter {array.name}")
        config = None
        if message.HasField("config"):
            config = meter_config(message.config, array.type_spec, f"meter {array.name}")
        indexes = _indexes(array, message)
        externs = self._control_plane.externs
        if self._fills(array, message, undo_log):
            externs.meter_fill(array.name, config)
            if resets:
                externs.colors_reset(array.name)
        else:
            _write_cells(array.name, indexes, config, externs.meter_read, externs.meter_write, undo_log)
            if resets:
                _write_cells(array.name, indexes, MeterColors(), externs.colors_read, externs.colors_write, undo_log)

    def read_meters(self, message: p4r.MeterEntry, budget: ReadBudget) -> Iterator[p4r.MeterEntry]:
        """One cell, one meter, or all meters; with color counters if the message has the field set."""
        externs, colored = self._control_plane.externs, message.HasField("counter_data")
        found = []
        for array in _selected(self._schema.meters, message.meter_id, "meter"):
            configs = _cells(array, message, budget, externs.meter_read, externs.meter_read_all)
            colors: Iterator[tuple[int, MeterColors | None]] = repeat((0, None))
            if colored:
                colors = _cells(array, message, budget, externs.colors_read, externs.colors_read_all, 3)
            found.append((array, zip(configs, colors, strict=False)))
        return (
            _meter_entry(array, index, config, color) for array, cells in found for (index, config), (_, color) in cells
        )

    def _fills(self, array: ArrayInfo, message: _Message, undo_log: UndoLog | None) -> bool:
        """Whether to write all cells with one call; raises RESOURCE_EXHAUSTED if they exceed the Write's budget."""
        if message.HasField("index"):
            return False
        if undo_log is None:
            self._budget.fill(array.size, array.name)
            return True
        self._budget.undo(array.size, array.name)
        return False


def _write_cells(
    name: str,
    indexes: range,
    value: _T,
    read: Callable[[str, int], _T],
    write: Callable[[str, int, _T], None],
    undo_log: UndoLog | None,
) -> None:
    for index in indexes:
        if undo_log is not None:
            undo_log.append(partial(write, name, index, read(name, index)))
        write(name, index, value)


def _cells(
    array: ArrayInfo,
    message: _Message,
    budget: ReadBudget,
    one: Callable[[str, int], _T],
    all_of: Callable[[str], Sequence[_T]],
    weight: int = 1,
) -> Iterator[tuple[int, _T]]:
    """Cells with their indexes, copied now and converted when read."""
    indexes = _indexes(array, message)
    budget.take(len(indexes) * weight, array.name)
    if message.HasField("index"):
        return iter([(index, one(array.name, index)) for index in indexes])
    cells = all_of(array.name)
    if len(cells) < array.size:
        raise invalid(f"{array.name} has {len(cells)} cells, not {array.size} as the P4Info says")
    return ((index, cells[index]) for index in indexes)


def _meter_entry(array: ArrayInfo, index: int, config: MeterConfig | None, color: MeterColors | None) -> p4r.MeterEntry:
    entry = p4r.MeterEntry(meter_id=array.id, index=p4r.Index(index=index))
    if config is not None:
        entry.config.CopyFrom(meter_message(config))
    if color is not None:
        entry.counter_data.CopyFrom(color_data(color))
    return entry


def only_modify(update: int, what: str) -> None:
    """Raise INVALID_ARGUMENT for anything but MODIFY."""
    if update != p4r.Update.MODIFY:
        raise invalid(f"{what} always exists; it can only be modified")


def counter_value(message: p4r.CounterData) -> CounterValue:
    """The value to write."""
    if message.packet_count < 0 or message.byte_count < 0:
        raise invalid("a counter cannot be set to a negative value")
    return CounterValue(packets=message.packet_count, bytes=message.byte_count)


def counter_data(value: CounterValue) -> p4r.CounterData:
    """The message for a value; counts are saturated at int64."""
    return p4r.CounterData(packet_count=min(value.packets, _MAX_COUNT), byte_count=min(value.bytes, _MAX_COUNT))


def meter_config(message: p4r.MeterConfig, kind: int, what: str) -> MeterConfig:
    """The configuration; INVALID_ARGUMENT if it does not fit the meter's type (p4.config.v1.MeterSpec.Type)."""
    for name in ("cir", "cburst", "pir", "pburst", "eburst"):
        if getattr(message, name) < 0:
            raise invalid(f"{what}: {name} is negative")
    if message.eburst:
        if kind == p4i.MeterSpec.SINGLE_RATE_THREE_COLOR:
            raise unimplemented(f"{what}: single-rate three-color metering is not supported by the embedded switch")
        raise invalid(f"{what}: eburst is for single-rate three-color meters only")
    if kind != p4i.MeterSpec.TWO_RATE_THREE_COLOR and (message.pir, message.pburst) != (message.cir, message.cburst):
        raise invalid(f"{what} has a single rate; pir and pburst must equal cir and cburst")
    if message.pir < message.cir:
        raise invalid(f"{what}: the peak rate is below the committed rate")
    return MeterConfig(cir=message.cir, cburst=message.cburst, pir=message.pir, pburst=message.pburst)


def meter_message(config: MeterConfig) -> p4r.MeterConfig:
    """The message for a configuration."""
    return p4r.MeterConfig(cir=config.cir, cburst=config.cburst, pir=config.pir, pburst=config.pburst)


def color_data(value: MeterColors) -> p4r.MeterCounterData:
    """The message for the counters of a meter."""
    return p4r.MeterCounterData(
        green=counter_data(value.green), yellow=counter_data(value.yellow), red=counter_data(value.red)
    )


def resets_colors(message: p4r.MeterEntry | p4r.DirectMeterEntry | p4r.TableEntry, name: str, what: str) -> bool:
    """Whether a write resets the color counters; raises INVALID_ARGUMENT for values other than 0."""
    if not message.HasField(name):  # type: ignore[arg-type]
        return False
    data: p4r.MeterCounterData = getattr(message, name)
    for color in (data.green, data.yellow, data.red):
        if color.packet_count or color.byte_count:
            raise invalid(f"{what}: color counters can only be set to 0")
    return True


def _selected(arrays: dict[int, ArrayInfo], id_: int, what: str) -> list[ArrayInfo]:
    return list(arrays.values()) if id_ == 0 else [find(arrays, id_, what)]


def _indexes(array: ArrayInfo, message: _Message) -> range:
    if not message.HasField("index"):
        return range(array.size)
    index = message.index.index
    if index < 0:
        raise invalid(f"{array.name}: index {index} is negative")
    if index >= array.size:
        raise out_of_range(f"{array.name}: index {index} is beyond its size of {array.size}")
    return range(index, index + 1)

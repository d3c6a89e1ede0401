"""Indexed counters, registers and meters: arrays that always exist and are only modified.

P4Runtime spec, sections "CounterEntry", "MeterEntry" and "RegisterEntry". An unset index means every index.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from finsy.proto import p4d, p4i, p4r

from p4runtime_shim.server import p4data
from p4runtime_shim.server.errors import invalid, out_of_range, unimplemented
from p4runtime_shim.server.journal import Journal
from p4runtime_shim.server.p4info import Array, Schema, find
from p4runtime_shim.server.target import Target
from p4runtime_shim.values import CounterValue, MeterColors, MeterConfig

_MAX_COUNT = 2**63 - 1  # int64


class Arrays:
    """The indexed externs of one switch."""

    def __init__(self, schema: Schema, target: Target) -> None:
        self._schema = schema
        self._target = target

    def attach(self, target: Target) -> None:
        """All of this is in another switch now (`Target.adopt`)."""
        self._target = target

    # --- counters

    def write_counter(self, update: int, message: p4r.CounterEntry, journal: Journal | None) -> None:
        """MODIFY of one cell or all."""
        array = find(self._schema.counters, message.counter_id, "counter")
        only_modify(update, f"counter {array.name}")
        indexes = _indexes(array, message)
        if not message.HasField("data"):
            return
        value = counter_value(message.data)
        for index in indexes:
            if journal is not None:
                old = self._target.counter_read(array.name, index)
                journal.append(partial(self._target.counter_write, array.name, index, old))
            self._target.counter_write(array.name, index, value)

    def read_counters(self, message: p4r.CounterEntry) -> Iterator[p4r.CounterEntry]:
        """One cell, one counter, or all counters."""
        for array in _selected(self._schema.counters, message.counter_id, "counter"):
            for index in _indexes(array, message):
                data = counter_data(self._target.counter_read(array.name, index))
                yield p4r.CounterEntry(counter_id=array.id, index=p4r.Index(index=index), data=data)

    # --- registers

    def write_register(self, update: int, message: p4r.RegisterEntry, journal: Journal | None) -> None:
        """MODIFY of one cell or all."""
        array = find(self._schema.registers, message.register_id, "register")
        only_modify(update, f"register {array.name}")
        value = p4data.decode_leaf(array.type_spec, self._schema.type_info, message.data, f"register {array.name}")
        for index in _indexes(array, message):
            if journal is not None:
                old = self._target.register_read(array.name, index)
                journal.append(partial(self._target.register_write, array.name, index, old))
            self._target.register_write(array.name, index, value)

    def read_registers(self, message: p4r.RegisterEntry) -> Iterator[p4r.RegisterEntry]:
        """One cell, one register, or all registers."""
        for array in _selected(self._schema.registers, message.register_id, "register"):
            for index in _indexes(array, message):
                value = self._target.register_read(array.name, index)
                data: p4d.P4Data = p4data.encode(array.type_spec, self._schema.type_info, iter((value,)))
                yield p4r.RegisterEntry(register_id=array.id, index=p4r.Index(index=index), data=data)

    # --- meters

    def write_meter(self, update: int, message: p4r.MeterEntry, journal: Journal | None) -> None:
        """MODIFY of one cell or all; without a config back to "all green"."""
        array = find(self._schema.meters, message.meter_id, "meter")
        only_modify(update, f"meter {array.name}")
        resets = resets_colors(message, "counter_data", f"meter {array.name}")
        config = None
        if message.HasField("config"):
            config = meter_config(message.config, array.type_spec, f"meter {array.name}")
        for index in _indexes(array, message):
            if journal is not None:
                old = self._target.meter_read(array.name, index)
                journal.append(partial(self._target.meter_write, array.name, index, old))
            self._target.meter_write(array.name, index, config)
            if resets:
                self._reset_colors(array.name, index, journal)

    def _reset_colors(self, name: str, index: int, journal: Journal | None) -> None:
        if journal is not None:
            journal.append(partial(self._target.meter_set_colors, name, index, self._target.meter_colors(name, index)))
        self._target.meter_set_colors(name, index, MeterColors())

    def read_meters(self, message: p4r.MeterEntry) -> Iterator[p4r.MeterEntry]:
        """One cell, one meter, or all meters; with counters of colors when the message has the field set."""
        for array in _selected(self._schema.meters, message.meter_id, "meter"):
            for index in _indexes(array, message):
                entry = p4r.MeterEntry(meter_id=array.id, index=p4r.Index(index=index))
                config = self._target.meter_read(array.name, index)
                if config is not None:
                    entry.config.CopyFrom(meter_message(config))
                if message.HasField("counter_data"):
                    entry.counter_data.CopyFrom(color_data(self._target.meter_colors(array.name, index)))
                yield entry


def only_modify(update: int, what: str) -> None:
    """INVALID_ARGUMENT for anything but MODIFY."""
    if update != p4r.Update.MODIFY:
        raise invalid(f"{what} always exists; it can only be modified")


def counter_value(message: p4r.CounterData) -> CounterValue:
    """The value to write."""
    if message.packet_count < 0 or message.byte_count < 0:
        raise invalid("a counter cannot be set to a negative value")
    return CounterValue(packets=message.packet_count, bytes=message.byte_count)


def counter_data(value: CounterValue) -> p4r.CounterData:
    """The message for a value; a count past int64 stays at its maximum."""
    return p4r.CounterData(packet_count=min(value.packets, _MAX_COUNT), byte_count=min(value.bytes, _MAX_COUNT))


def meter_config(message: p4r.MeterConfig, kind: int, what: str) -> MeterConfig:
    """The configuration; INVALID_ARGUMENT when it is not one for a meter of this type (p4.config.v1.MeterSpec.Type)."""
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
    """Whether a write sets the counters of colors, which is only allowed to zero (INVALID_ARGUMENT)."""
    if not message.HasField(name):  # type: ignore[arg-type]
        return False
    data: p4r.MeterCounterData = getattr(message, name)
    for color in (data.green, data.yellow, data.red):
        if color.packet_count or color.byte_count:
            raise invalid(f"{what}: counters of colors can only be set to 0")
    return True


def _selected(arrays: dict[int, Array], id_: int, what: str) -> list[Array]:
    return list(arrays.values()) if id_ == 0 else [find(arrays, id_, what)]


def _indexes(array: Array, message: p4r.CounterEntry | p4r.RegisterEntry | p4r.MeterEntry) -> range:
    if not message.HasField("index"):
        return range(array.size)
    index = message.index.index
    if index < 0:
        raise invalid(f"{array.name}: index {index} is negative")
    if index >= array.size:
        raise out_of_range(f"{array.name}: index {index} is beyond its size of {array.size}")
    return range(index, index + 1)

"""Indirect counters, meters and registers: cells by index."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable
from functools import partial
from typing import Any

from p4runtime_shim.codegen.layout import storage_bytes
from p4runtime_shim.errors import InvalidArgument, NotFound
from p4runtime_shim.native import Native
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.values import CounterValue, MeterColors, MeterConfig


def meter_doubles(config: MeterConfig | None) -> c.Array[c.c_double] | None:
    """A meter's configuration as the engine takes it: rates a microsecond."""
    if config is None:
        return None
    if min(config.cir, config.cburst, config.pir, config.pburst) < 0:
        raise InvalidArgument("rates and bursts of a meter cannot be negative")
    if config.cir > config.pir:
        raise InvalidArgument("the committed rate of a meter cannot be above its peak rate")
    return (c.c_double * 4)(config.cir / 1e6, config.cburst, config.pir / 1e6, config.pburst)


def colors_read(access: Callable[[int, Any], None]) -> MeterColors:
    """The counters of a meter; `access(write, values)` is the engine's function for it."""
    values = (c.c_uint64 * 6)()
    access(0, values)
    return MeterColors(*(CounterValue(values[i], values[i + 1]) for i in (0, 2, 4)))


def colors_write(access: Callable[[int, Any], None], value: MeterColors) -> None:
    """Set them."""
    flat = [number for color in (value.green, value.yellow, value.red) for number in (color.packets, color.bytes)]
    access(1, (c.c_uint64 * 6)(*flat))


class Cells:
    """The arrays of one switch."""

    def __init__(self, pipeline: Pipeline, native: Native, handle: int) -> None:
        self.pipeline = pipeline
        self.program = pipeline.program
        self.native = native
        self.handle = handle
        self._meters: dict[tuple[int, int], MeterConfig] = {}

    def counter_read(self, name: str, index: int) -> CounterValue:
        """One cell."""
        counter = self._counter(name, index)
        values = (c.c_uint64 * 2)()
        self.native.library.sw_ctl_counter(self.handle, counter, index, 0, values)
        return CounterValue(values[0], values[1])

    def counter_read_all(self, name: str) -> list[CounterValue]:
        """All cells, read at one instant."""
        counter = self._counter(name, 0)
        size = self.program.counters[counter].size
        values = (c.c_uint64 * (2 * size))()
        self.native.library.sw_ctl_counters(self.handle, counter, values)
        return [CounterValue(values[2 * i], values[2 * i + 1]) for i in range(size)]

    def counter_write(self, name: str, index: int, value: CounterValue) -> None:
        """Set one cell."""
        values = (c.c_uint64 * 2)(value.packets, value.bytes)
        self.native.library.sw_ctl_counter(self.handle, self._counter(name, index), index, 1, values)

    def _counter(self, name: str, index: int) -> int:
        position = self.pipeline.find("counter", self.pipeline.counters, name)
        size = self.program.counters[position].size
        if not size:
            raise InvalidArgument(f"{name} is a direct counter; read it with its table entry")
        _check_index("counter", name, index, size)
        return position

    def register_read(self, name: str, index: int) -> int:
        """One cell."""
        position = self._register(name, index)
        cell = c.create_string_buffer(storage_bytes(self.program.registers[position].width))
        self.native.library.sw_ctl_register(self.handle, position, index, 0, cell)
        return int.from_bytes(cell.raw, "little")

    def register_write(self, name: str, index: int, value: int) -> None:
        """Set one cell."""
        position = self._register(name, index)
        width = self.program.registers[position].width
        if not 0 <= value < 1 << width:
            raise InvalidArgument(f"value does not fit the {width} bits of register {name}")
        cell = value.to_bytes(storage_bytes(width), "little")
        self.native.library.sw_ctl_register(self.handle, position, index, 1, cell)

    def _register(self, name: str, index: int) -> int:
        position = self.pipeline.find("register", self.pipeline.registers, name)
        _check_index("register", name, index, self.program.registers[position].size)
        return position

    def meter_read(self, name: str, index: int) -> MeterConfig | None:
        """Configuration of one cell."""
        return self._meters.get((self._meter(name, index), index))

    def meter_write(self, name: str, index: int, config: MeterConfig | None) -> None:
        """Configure one cell; None lets every packet be green."""
        position = self._meter(name, index)
        self.native.library.sw_ctl_meter(self.handle, position, index, meter_doubles(config))
        if config is None:
            self._meters.pop((position, index), None)
        else:
            self._meters[position, index] = config

    def colors_read(self, name: str, index: int) -> MeterColors:
        """What one cell has colored."""
        return colors_read(
            partial(self.native.library.sw_ctl_meter_colors, self.handle, self._meter(name, index), index)
        )

    def colors_write(self, name: str, index: int, value: MeterColors) -> None:
        """Set these counters."""
        access = partial(self.native.library.sw_ctl_meter_colors, self.handle, self._meter(name, index), index)
        colors_write(access, value)

    def _meter(self, name: str, index: int) -> int:
        position = self.pipeline.find("meter", self.pipeline.meters, name)
        info = self.program.meters[position]
        if info.table is not None:
            raise InvalidArgument(f"{name} is a direct meter; configure it with its table entry")
        _check_index("meter", name, index, info.size)
        return position


def _check_index(kind: str, name: str, index: int, size: int) -> None:
    if not 0 <= index < size:
        raise NotFound(f"{kind} {name} has {size} cells, no index {index}")

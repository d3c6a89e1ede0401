"""Indirect counters, meters and registers: single cells by index, or all cells of an array.

All cells are copied or filled in blocks, so that packets do not wait long; no other control plane call runs in between.
A copy stays raw until a cell of it is read, since an array may have millions.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar, overload

from p4runtime_shim.codegen.c_integers import storage_bytes
from p4runtime_shim.entities import CounterValue, MeterColors, MeterConfig
from p4runtime_shim.errors import InvalidArgument, NotFound
from p4runtime_shim.pipeline import Pipeline
from p4runtime_shim.state.loaded_switch import LoadedSwitch, locked

MAX_METER = (1 << 63) - 1
_BLOCK = 1 << 14  # cells that are copied while packets wait

_V = TypeVar("_V")


class Snapshot(Sequence[_V]):
    """A copy of the cells of an array; `value(index)` converts one of them."""

    def __init__(self, what: str, size: int, value: Callable[[int], _V]) -> None:
        self._what = what
        self._size = size
        self._value = value

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> _V: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_V]: ...
    def __getitem__(self, index: int | slice) -> _V | Sequence[_V]:
        if isinstance(index, slice):
            return [self._value(i) for i in range(self._size)[index]]
        if not -self._size <= index < self._size:
            raise IndexError(f"{self._what} has {self._size} cells, no index {index}")
        return self._value(index % self._size)


def _blocks(size: int) -> Iterator[tuple[int, int]]:
    """First cell and number of cells of each block of an array."""
    for first in range(0, size, _BLOCK):
        yield first, min(_BLOCK, size - first)


def meter_doubles(config: MeterConfig | None) -> c.Array[c.c_double] | None:
    """A meter's configuration for the engine: rates per microsecond."""
    if config is None:
        return None
    if min(config.cir, config.cburst, config.pir, config.pburst) < 0:
        raise InvalidArgument("rates and bursts of a meter cannot be negative")
    if max(config.cir, config.cburst, config.pir, config.pburst) > MAX_METER:
        raise InvalidArgument("rates and bursts of a meter are at most 2**63 - 1, as in P4Runtime")
    if config.cir > config.pir:
        raise InvalidArgument("the committed rate of a meter cannot be above its peak rate")
    return (c.c_double * 4)(config.cir / 1e6, config.cburst, config.pir / 1e6, config.pburst)


def colors_read(access: Callable[[int, Any], None]) -> MeterColors:
    """The counters of a meter; `access(write, values)` is the engine's function for it."""
    values = (c.c_uint64 * 6)()
    access(0, values)
    return _colors(list(values))


def _colors(values: Sequence[int]) -> MeterColors:
    return MeterColors(*(CounterValue(values[i], values[i + 1]) for i in (0, 2, 4)))


def colors_write(access: Callable[[int, Any], None], value: MeterColors) -> None:
    """Set the counters of a meter."""
    flat = [number for color in (value.green, value.yellow, value.red) for number in (color.packets, color.bytes)]
    access(1, (c.c_uint64 * 6)(*flat))


class ExternState:
    """The arrays of one switch."""

    def __init__(self, pipeline: Pipeline, switch: LoadedSwitch) -> None:
        self.pipeline = pipeline
        self.program = pipeline.program
        self.switch = switch
        self._meters: dict[
            int, dict[int, MeterConfig | None]
        ] = {}  # by meter and cell; otherwise the value in `_filled`
        self._filled: dict[int, MeterConfig] = {}

    @locked
    def counter_read(self, name: str, index: int) -> CounterValue:
        """One cell."""
        counter = self._counter(name, index)
        values = (c.c_uint64 * 2)()
        self.switch.library.sw_ctl_counters(self.switch.handle, counter, index, 1, 0, values)
        return CounterValue(values[0], values[1])

    @locked
    def counter_read_all(self, name: str) -> Snapshot[CounterValue]:
        """All cells."""
        counter = self._counter(name, None)
        size = self.program.counters[counter].size
        values = (c.c_uint64 * (2 * size))()
        for first, count in _blocks(size):
            into = c.cast(c.byref(values, 16 * first), c.POINTER(c.c_uint64))
            self.switch.library.sw_ctl_counters(self.switch.handle, counter, first, count, 0, into)
        return Snapshot(f"counter {name}", size, lambda i: CounterValue(values[2 * i], values[2 * i + 1]))

    @locked
    def counter_fill(self, name: str, value: CounterValue) -> None:
        """Set all cells."""
        counter = self._counter(name, None)
        size = self.program.counters[counter].size
        block = (c.c_uint64 * (2 * min(size, _BLOCK)))(*(value.packets, value.bytes) * min(size, _BLOCK))
        for first, count in _blocks(size):
            self.switch.library.sw_ctl_counters(self.switch.handle, counter, first, count, 1, block)

    @locked
    def counter_write(self, name: str, index: int, value: CounterValue) -> None:
        """Set one cell."""
        values = (c.c_uint64 * 2)(value.packets, value.bytes)
        self.switch.library.sw_ctl_counters(self.switch.handle, self._counter(name, index), index, 1, 1, values)

    def _counter(self, name: str, index: int | None) -> int:
        position = self.pipeline.find("counter", self.pipeline.counters, name)
        size = self.program.counters[position].size
        if not size:
            raise InvalidArgument(f"{name} is a direct counter; read it with its table entry")
        if index is not None:
            _check_index("counter", name, index, size)
        return position

    @locked
    def register_read(self, name: str, index: int) -> int:
        """One cell."""
        position = self._register(name, index)
        cell = c.create_string_buffer(storage_bytes(self.program.registers[position].width))
        self.switch.library.sw_ctl_registers(self.switch.handle, position, index, 1, 0, cell)
        return int.from_bytes(cell.raw, "little")

    @locked
    def register_write(self, name: str, index: int, value: int) -> None:
        """Set one cell."""
        position = self._register(name, index)
        cell = self._cell(name, position, value)
        self.switch.library.sw_ctl_registers(self.switch.handle, position, index, 1, 1, cell)

    @locked
    def register_read_all(self, name: str) -> Snapshot[int]:
        """All cells."""
        position = self._register(name, None)
        info = self.program.registers[position]
        width = storage_bytes(info.width)
        cells = c.create_string_buffer(info.size * width)
        for first, count in _blocks(info.size):
            into = c.byref(cells, first * width)
            self.switch.library.sw_ctl_registers(self.switch.handle, position, first, count, 0, into)
        view = memoryview(cells)
        return Snapshot(
            f"register {name}",
            info.size,
            lambda i: int.from_bytes(view[i * width : (i + 1) * width], "little"),
        )

    @locked
    def register_fill(self, name: str, value: int) -> None:
        """Set all cells."""
        position = self._register(name, None)
        info = self.program.registers[position]
        block = self._cell(name, position, value) * min(info.size, _BLOCK)
        for first, count in _blocks(info.size):
            self.switch.library.sw_ctl_registers(self.switch.handle, position, first, count, 1, block)

    def _cell(self, name: str, position: int, value: int) -> bytes:
        width = self.program.registers[position].width
        if not 0 <= value < 1 << width:
            raise InvalidArgument(f"value does not fit the {width} bits of register {name}")
        return value.to_bytes(storage_bytes(width), "little")

    def _register(self, name: str, index: int | None) -> int:
        position = self.pipeline.find("register", self.pipeline.registers, name)
        if index is not None:
            _check_index("register", name, index, self.program.registers[position].size)
        return position

    @locked
    def meter_read(self, name: str, index: int) -> MeterConfig | None:
        """Configuration of one cell."""
        position = self._meter(name, index)
        return self._meters.get(position, {}).get(index, self._filled.get(position))

    @locked
    def meter_read_all(self, name: str) -> Snapshot[MeterConfig | None]:
        """Configurations of all cells."""
        position = self._meter(name, None)
        cells, filled = dict(self._meters.get(position, {})), self._filled.get(position)
        return Snapshot(f"meter {name}", self.program.meters[position].size, lambda i: cells.get(i, filled))

    @locked
    def meter_write(self, name: str, index: int, config: MeterConfig | None) -> None:
        """Configure one cell; with None, every packet is green."""
        position = self._meter(name, index)
        self.switch.library.sw_ctl_meters(self.switch.handle, position, index, 1, meter_doubles(config))
        self._meters.setdefault(position, {})[index] = config

    @locked
    def meter_fill(self, name: str, config: MeterConfig | None) -> None:
        """Configure all cells."""
        position = self._meter(name, None)
        doubles = meter_doubles(config)
        for first, count in _blocks(self.program.meters[position].size):
            self.switch.library.sw_ctl_meters(self.switch.handle, position, first, count, doubles)
        self._meters.pop(position, None)
        self._filled.pop(position, None)
        if config is not None:
            self._filled[position] = config

    @locked
    def colors_read(self, name: str, index: int) -> MeterColors:
        """Packets and bytes that one cell has colored."""
        return colors_read(self._cell_colors(name, index))

    @locked
    def colors_read_all(self, name: str) -> Snapshot[MeterColors]:
        """Packets and bytes that each cell has colored."""
        position = self._meter(name, None)
        size = self.program.meters[position].size
        values = (c.c_uint64 * (6 * size))()
        for first, count in _blocks(size):
            into = c.cast(c.byref(values, 48 * first), c.POINTER(c.c_uint64))
            self.switch.library.sw_ctl_colors(self.switch.handle, position, first, count, 0, into)
        return Snapshot(f"meter {name}", size, lambda i: _colors(values[6 * i : 6 * i + 6]))

    @locked
    def colors_reset(self, name: str) -> None:
        """Reset the color counters of all cells."""
        position = self._meter(name, None)
        size = self.program.meters[position].size
        block = (c.c_uint64 * (6 * min(size, _BLOCK)))()
        for first, count in _blocks(size):
            self.switch.library.sw_ctl_colors(self.switch.handle, position, first, count, 1, block)

    @locked
    def colors_write(self, name: str, index: int, value: MeterColors) -> None:
        """Set the color counters of one cell."""
        colors_write(self._cell_colors(name, index), value)

    def _cell_colors(self, name: str, index: int) -> Callable[[int, Any], None]:
        return partial(self.switch.library.sw_ctl_colors, self.switch.handle, self._meter(name, index), index, 1)

    def _meter(self, name: str, index: int | None) -> int:
        position = self.pipeline.find("meter", self.pipeline.meters, name)
        info = self.program.meters[position]
        if info.table is not None:
            raise InvalidArgument(f"{name} is a direct meter; configure it with its table entry")
        if index is not None:
            _check_index("meter", name, index, info.size)
        return position


def _check_index(kind: str, name: str, index: int, size: int) -> None:
    if not 0 <= index < size:
        raise NotFound(f"{kind} {name} has {size} cells, no index {index}")

"""How long the library takes with operations and chunks, in virtual time."""

from __future__ import annotations

import pytest

from mrc_lab.workloads.collectives.pacing import Pacing, PacingSettings
from simulation.core.native import Clock
from simulation.virtual_time_loop import VirtualTimeLoop
from tests.mrc_lab.experiments.running.cases import case_of, run

US = 1_000


def ready_times(settings: PacingSettings, sizes: list[int]) -> list[int]:
    """When chunks that are all there at once may be sent, in ns."""
    clock = Clock()
    loop = VirtualTimeLoop(clock)

    async def ask() -> list[int]:
        pacing = Pacing(settings)
        pacing.begin()
        times = [pacing.ready(size) for size in sizes]
        waited = []
        for time in times:
            await pacing.until(time)
            waited.append(clock.now)
        return waited

    try:
        return loop.run_task(loop.create_task(ask()))
    finally:
        loop.close()


def test_steps_have_latency_and_copies_do_not() -> None:
    assert ready_times(PacingSettings(step=3 * US), [1000, 1000]) == [3 * US, 3 * US]
    assert ready_times(PacingSettings(copy_rate=8 * 10**9), [1000, 1000]) == [1 * US, 2 * US]
    assert ready_times(PacingSettings(launch=10 * US, step=3 * US, copy_rate=8 * 10**9), [1000] * 2) == [
        14 * US,
        15 * US,
    ]


def test_zero_times_are_not_paced() -> None:
    assert PacingSettings().pacing() is None
    with pytest.raises(ValueError, match="negative"):
        PacingSettings(step=-1)


@pytest.mark.parametrize(
    ("operation", "steps"),
    [
        ("all_reduce", 6),
        ("all_gather", 3),
        ("reduce_scatter", 3),
        ("broadcast", 3),
        ("send_receive", 1),
        ("all_to_all", 1),
    ],
)
def test_every_operation_is_paced_once_per_step(operation: str, steps: int) -> None:
    """Among four ranks, with one chunk a step: what a step takes longer, the operation takes longer so many times."""

    def took(step: int) -> int:
        load = f"{{kind: collective, operation: {operation}, bytes: 16K, iterations: 1, warmup: 0, chunk: 64K}}"
        recording = run(case_of(load, "5ms", timing=f"{{step: {step}ns}}"))
        assert recording.errors == ()
        assert recording.wrong_bytes == 0
        (record,) = recording.operations
        return record.ended - record.began

    assert took(50 * US) - took(0) == pytest.approx(steps * 50 * US, abs=2 * US)


def test_collectives_are_paced_by_the_timing_of_the_file() -> None:
    load = "{kind: collective, operation: all_reduce, bytes: 4M, iterations: 1, warmup: 0, chunk: 64K}"
    slow = run(case_of(load, "20ms", timing="{copy_rate: 20G}"))
    (record,) = slow.operations
    least = 6 * (4 << 20) // 4 * 8 // 20  # six steps of a quarter of the bytes, in ns
    assert least <= record.ended - record.began < 1.2 * least

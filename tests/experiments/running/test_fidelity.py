import asyncio

from experiments.running.fidelity import Watch, judge


def test_a_machine_with_room_is_trusted():
    found = judge([0.5] * 20, [0.001] * 100, 0.7)
    assert found.trusted
    assert found.reasons == ()
    assert found.figures == {"idle_p10": 0.5, "lag_p99_s": 0.001, "cores_used": 0.7}


def test_a_busy_machine_is_not():
    found = judge([0.02] * 20, [0.001] * 100, 2.0)
    assert not found.trusted
    assert "only 2 % of the processors were idle" in found.reasons[0]


def test_late_wake_ups_are_not():
    found = judge([0.5] * 20, [0.2] * 100, 0.5)
    assert not found.trusted
    assert "200 ms late" in found.reasons[0]


def test_one_bad_moment_does_not_count():
    assert judge([0.5] * 30 + [0.0], [0.001] * 500 + [0.4], 0.5).trusted


def test_a_watch_sees_how_late_it_is_woken():
    async def block():
        watch = Watch(lambda: 0.0)
        task = asyncio.ensure_future(watch.run())
        await asyncio.sleep(0.06)
        for _ in range(3):
            import time

            time.sleep(0.15)  # what nobody may do in a loop
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        return watch.judge()

    assert any("late" in reason for reason in asyncio.run(block()).reasons)

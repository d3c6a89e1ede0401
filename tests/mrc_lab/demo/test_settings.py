import pytest

from mrc_lab.demo.settings import DemoSettings
from mrc_lab.errors import ExperimentError
from topologies.errors import FabricError


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 10}, "too few"),
        ({"hosts": 1}, "two hosts"),
        ({"t1": 1}, "another way round"),
        ({"t0": 1}, "another way round"),
        ({"batch": 3}, "cannot be shared by 4"),
        ({"fault_s": 0.0}, "is none"),
        ({"fault_s": 40.0}, "longer than a fault"),
    ],
)
def test_unworkable_settings_are_refused(wrong, message):
    with pytest.raises(ExperimentError, match=message):
        DemoSettings(**wrong)


def test_impossible_fabric_sizes_are_refused():
    with pytest.raises(FabricError, match="multiple of 2"):
        DemoSettings(hosts=5).fabric()


@pytest.mark.parametrize("fault_s", [1.0, 3.0, 5.0, 20.0])
def test_the_number_of_steps_covers_the_faults_at_any_rate(fault_s):
    for rate in (20_000_000, 100_000_000, 400_000_000):
        settings = DemoSettings.with_enough_steps(rate_bps=rate, fault_s=fault_s)
        first, second = settings.fault_steps
        step = settings.fastest_step_s
        assert first * step > 1.0  # something to compare with
        assert first * step + fault_s + 0.8 < second * step  # up before the next link down
        assert second * step + fault_s + 0.8 < settings.steps * step  # and the last one before the end


def test_chosen_steps_are_kept():
    assert DemoSettings.with_enough_steps(steps=77).steps == 77


@pytest.mark.parametrize("rate", [2_000_000, 25_000_000, 1_000_000_000])
def test_queue_pairs_survive_the_faults_and_full_windows_do_not_time_out(rate):
    settings = DemoSettings(rate_bps=rate, planes=2)
    roce, mrc = settings.attributes("roce"), settings.attributes("mrc")
    assert mrc.timeout == roce.timeout
    assert mrc.congestion_window is None
    assert roce.congestion_window >= 8 * roce.path_mtu
    for attributes in (roce, mrc):
        assert attributes.retry_count == 255
        assert 2 * roce.congestion_window * 8 / rate < 1.024e-6 * 2**attributes.timeout < settings.fault_s

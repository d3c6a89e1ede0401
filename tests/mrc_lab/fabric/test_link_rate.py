from mrc_lab.fabric.link_rate import carried_rate


def test_all_hosts_together_stay_within_what_the_cores_carry():
    for cores in (1, 2, 4, 16):
        for hosts, planes in ((2, 1), (4, 2), (8, 4), (16, 8), (1024, 8)):
            rate = carried_rate(hosts, planes, cores=cores)
            assert rate == 1_000_000 or rate * hosts * planes <= 100_000_000 * cores
            assert 1_000_000 <= rate <= 100_000_000


def test_more_cores_carry_more_and_this_machine_carries_something():
    assert carried_rate(4, 2, cores=4) == 2 * carried_rate(4, 2, cores=2) == 50_000_000
    assert carried_rate(4, 2) >= 1_000_000

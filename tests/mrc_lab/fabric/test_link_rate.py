from mrc_lab.fabric.link_rate import carried_rate


def test_the_total_rate_of_all_hosts_fits_the_cores():
    for cores in (1, 2, 4, 16):
        for hosts, planes in ((2, 1), (4, 2), (8, 4), (16, 8), (1024, 8)):
            rate = carried_rate(hosts, planes, cores=cores)
            assert rate == 1_000_000 or rate * hosts * planes <= 100_000_000 * cores
            assert 1_000_000 <= rate <= 100_000_000


def test_more_cores_allow_higher_rates():
    assert carried_rate(4, 2, cores=4) == 2 * carried_rate(4, 2, cores=2) == 50_000_000
    assert carried_rate(4, 2) >= 1_000_000

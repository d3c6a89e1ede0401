import threading

from mrc_lab.fabric.bring_up_progress import reported, share_up
from topologies.clos import multi_plane_clos
from topologies.emulation.run_directory import RunDirectory

FABRIC = multi_plane_clos("progress", planes=1, t0=1, t1=1, hosts=4)


def test_the_share_grows_with_the_agents_that_are_up(tmp_path):
    run = RunDirectory(FABRIC.name, tmp_path)
    run.path.mkdir(parents=True)
    shares = [share_up(FABRIC, run)]
    for nic in FABRIC.nics:
        run.host_socket(nic.name).touch()
        shares.append(share_up(FABRIC, run))
    assert shares[0] == 0
    assert shares == sorted(set(shares)), "it grows with each"
    assert shares[-1] == 1


def test_progress_is_reported_while_the_fabric_comes_up_and_no_longer():
    seen = threading.Event()
    shares = []

    def progress(share):
        shares.append(share)
        seen.set()

    with reported(FABRIC, progress):
        assert seen.wait(60)
    assert not [thread for thread in threading.enumerate() if thread.name == "bring-up progress"]
    assert set(shares) == {0.0}, "no such fabric is up"

"""A write between two hosts over verbs: without root, on virtual time, while a link goes down.

On a fabric that is up the verbs are the same, on ``verbs.open("/run/mrc/demo/h1.sock")`` (docs/verbs.md). Run it with
``.venv/bin/python examples/write.py``.
"""

from simulation.world import SimulatedWorld
from topologies.clos import multi_plane_clos

fabric = multi_plane_clos(planes=4, t0=2, t1=4, hosts=8)
with SimulatedWorld(fabric, seed=7, rate=100_000_000_000) as world:
    world.faults.link_down("t0-0:t1-3@p2", at=20_000)  # ns

    async def job() -> None:
        with world.open("h1") as near, world.open("h5") as far:
            pd, far_pd = near.alloc_pd(), far.alloc_pd()
            region, far_region = pd.alloc_mr(1 << 20), far_pd.alloc_mr(1 << 20)
            region.buffer[:] = b"gradient" * (1 << 17)
            cq, far_cq = near.create_cq(), far.create_cq()
            qp = pd.create_qp(cq, attributes=world.attributes())
            far_qp = far_pd.create_qp(far_cq, attributes=world.attributes())
            qp.connect(far_qp.address)
            far_qp.connect(qp.address)
            qp.write(region, far_region.remote, imm=1)
            await far_cq.next()
            assert far_region.buffer == region.buffer
            print(f"1 MiB in {world.now / 1000:.1f} us, {qp.counters().lost} packets lost")

    world.run(job())

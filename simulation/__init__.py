"""Simulation: the same NICs, switches and P4 program as in emulation, under a virtual clock.

One process, no root, no threads, no wall clock: time jumps from event to event, and the same seed gives the same run,
byte for byte. `world.SimulatedWorld` is the way in:

    world = SimulatedWorld(multi_plane_clos(planes=8, t0=4, t1=8, hosts=64), seed=7, rate=100_000_000_000)
    world.faults.link_down("t0-1:t1-3@p2", at=50_000, until=400_000)
    result = world.run(my_coroutine(world.provider("h1"), world.provider("h33")))
"""

"""A drop-in ``libibverbs.so.1`` in C, so that programs written for RDMA run on an emulated NIC without a change.

It speaks the agent's protocol (:mod:`mrc_host.verbs.remote.protocol`) and finds the agent's socket in the environment
variable ``MRC_AGENT``. :mod:`mrc_host.libibverbs.build` compiles it; docs/applications.md says what it can do.

    agent.c             the connection to the agent; json.c reads its answers
    device.c            a device and its addresses; ports.c its ports
    plane_devices.c     which devices there are, and what a GID says of planes
    memory_region.c     registration; shared_pages.c moves pages onto the memory shared with the NIC
    completion_queue.c  completions; completion_channel.c those that poll() waits for
    events.c            asynchronous events, and the thread that reads while the application does not
    queue_pair.c        queue pairs and their states; posting.c work requests
    fork.c              what a child process keeps
    names.c             texts of enumerations
    absent.c            what MRC has not
    for_libmrc.c        what mrc_host/libmrc/ takes from here besides verbs
"""

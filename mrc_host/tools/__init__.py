"""Tools that RDMA users know, for this NIC.

`python -m mrc_host.tools.write_bw` and `write_lat` have perftest's flags and columns where they apply. Instead of an
RDMA device `-d` names the agent's socket.
"""

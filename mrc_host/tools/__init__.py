"""Programs that users of RDMA know, on this NIC.

`python -m mrc_host.tools.write_bw` and `write_lat` have the flags and columns of perftest where the job is the same.
Instead of an RDMA device `-d` names the agent's socket.
"""

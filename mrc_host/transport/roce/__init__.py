"""RoCEv2 reliable connection, the baseline: one path, in order, go-back-N (IBTA volume 1, chapter 9; annex A17).

As in MRC there is only RDMA WRITE, on the same device, memory and completion queues, so that the two transports differ
only in what they are compared for.
"""

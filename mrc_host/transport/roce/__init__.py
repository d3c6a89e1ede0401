"""RoCEv2 reliable connection, the baseline: one path, in order, go-back-N (IBTA volume 1, chapter 9; annex A17).

Only RDMA WRITE is here, as in MRC, over the same device, memory and completion queues, so that the two transports
differ in nothing but what they are compared for.
"""

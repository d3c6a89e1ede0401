"""Examine whether a NIC keeps the rules of MRC that can be seen from outside.

The kit plays the peer of one NIC, over real interfaces or in memory. Each script (`scripts/`) is a scene for one rule
of docs/conformance.md: packets to send, packets to expect, requests for the NIC's application. `script` reads it,
`player` plays it, `packets` writes and reads frames, `nic_under_test` reaches the application beside the NIC, `wires`
carry frames and keep the time, `random_peer` plays what nobody wrote down, `report` says what came of it.
"""

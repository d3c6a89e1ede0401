"""Verbs of a NIC in another process: the protocol between an application and the host's agent, and its client.

``protocol`` frames requests, ``codec`` packs values, ``descriptors`` passes file descriptors; ``connection`` exchanges
requests and events, ``client`` is the provider above it. ``agent_verbs`` and ``control_api_verbs`` declare the verbs
that only an agent has. The agent (:mod:`mrc_host.agent`) serves the same protocol.
"""

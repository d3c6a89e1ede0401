"""The process that owns a host's NIC, and the client side of it.

:mod:`~mrc_host.agent.server` and :mod:`~mrc_host.agent.session` serve, :mod:`~mrc_host.agent.client` asks,
:mod:`~mrc_host.agent.protocol` is what they say. `python -m mrc_host.agent` runs one.
"""

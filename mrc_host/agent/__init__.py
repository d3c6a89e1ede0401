"""The process that owns a host's NIC, and the client side of it.

:mod:`~mrc_host.agent.server` and :mod:`~mrc_host.agent.session` are the server, :mod:`~mrc_host.agent.client` is the
client, :mod:`~mrc_host.agent.protocol` has their messages. `python -m mrc_host.agent` runs one agent.
"""

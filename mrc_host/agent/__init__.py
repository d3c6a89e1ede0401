"""The process that owns a host's NIC, and serves its verbs to applications over a UNIX socket.

:mod:`~mrc_host.agent.server` accepts them, :mod:`~mrc_host.agent.session` serves one each. Their protocol and its
client are in :mod:`mrc_host.verbs.remote`. ``python -m mrc_host.agent`` runs one agent.
"""

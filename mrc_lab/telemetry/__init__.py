"""Metrics of a fabric that is up, for Prometheus: what its NICs, links, switches and faults have counted.

`readings` asks the fabric's processes, `families` names what they answered, `exporter` serves it over HTTP.
"""

DEFAULT_ADDRESS = "127.0.0.1:9464"
"""Where the exporter listens unless another address is given."""

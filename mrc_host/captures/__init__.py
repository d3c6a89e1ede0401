"""MRC for packet analysis: scapy layers (``scapy_layers``) and a Wireshark dissector (``mrc.lua``).

The NIC uses neither; its codec is ``mrc_host.wire``. The golden captures in ``tests/mrc_host/captures/golden`` check
that the three agree. docs/captures.md says how to load the dissector.
"""

from pathlib import Path

DISSECTOR = Path(__file__).with_name("mrc.lua")
"""Path of the Wireshark dissector, for ``tshark -X lua_script:...``."""

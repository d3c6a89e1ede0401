"""MRC for people who look at packets: a scapy layer set (``scapy_layers``) and a Wireshark dissector (``mrc.lua``).

Neither is used by the NIC, whose codec is ``mrc_host.wire``; the three are held together by the golden captures in
``tests/mrc_host/captures/golden``. How to load the dissector is described in docs/captures.md.
"""

from pathlib import Path

DISSECTOR = Path(__file__).with_name("mrc.lua")
"""Path of the Wireshark dissector, for ``tshark -X lua_script:...``."""

"""What a test runs on that is about any wire."""

WIRES = ("veth", "ring")

"""The embedded switch: a BMv2 JSON compiler, a traffic manager, a P4Runtime server and a port driver."""

"""The embedded switch: BMv2 JSON to machine code, a traffic manager, a P4Runtime server and a port driver."""

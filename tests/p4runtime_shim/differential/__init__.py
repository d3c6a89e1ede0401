"""The same tables and packets on BMv2 and on the embedded switch: what comes out, and what stays inside, is equal."""

"""P4Runtime for embedded switches: one gRPC service for any number of devices."""

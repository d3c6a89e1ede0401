"""Tests of the P4 compiler. p4c's output of the test programs and of p4src is the oracle where it is committed."""

"""Fabrics to work on: bring one up, find the one that is meant, keep it up, see what the machine lacks."""

"""Chores of the project's developers."""

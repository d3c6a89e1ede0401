"""Workloads that need no coordinator: transfers between hosts of a fabric that is up."""

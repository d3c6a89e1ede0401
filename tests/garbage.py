"""A pytest plugin: Python's garbage collector leaves alone what was imported and collected before the first test.

That is most of the memory of a process that runs tests, and none of it goes away before the end. Looking through it
again and again costs a tenth of the processor time of all tests, and more while tests are collected, when nearly all
that is made stays. What tests themselves leave is collected as everywhere.
"""

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()

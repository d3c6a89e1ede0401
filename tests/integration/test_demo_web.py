"""``mrc demo --web`` in a browser: it waits for the page, which says what the same cuts do to both transports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.names import own
from tests.mrc_lab.web.browser import chromium
from tests.waiting import until
from topologies.emulation.run_directory import DEFAULT_ROOT

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]
MRC = Path(sys.executable).with_name("mrc")
LONG_S = 240.0  # for a run of the demo on a machine that does much else


def test_page_says_what_the_cuts_cost_each_transport_and_is_recorded(tmp_path: Path) -> None:
    name = own("demoweb")
    words = [MRC, "demo", "--name", name, "--web", "--steps", "40", "--fault-seconds", "2", "--results", tmp_path]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        assert demo.stdout is not None
        try:
            printed = []
            while not printed or not printed[-1].startswith("http"):
                printed.append(demo.stdout.readline())
                assert printed[-1], printed
            with chromium(printed[-1].strip()) as page:
                until(lambda: "RoCE" in page.text("#training"), "the first step", timeout_s=LONG_S)
                assert "the same job, and the same cuts, when RoCE is done" in page.text("#training")
                results = "return [...document.querySelectorAll('#training .result')].map((one) => one.textContent)"
                until(lambda: len(page.js(results)) == 2, "the costs of both cuts", timeout_s=LONG_S)
                assert all("cost RoCE " in text and " and MRC " in text for text in page.js(results))
                assert "✕" in page.js("return document.querySelector('#training .run').textContent"), "RoCE stood still"
                until(lambda: "has ended" in page.text("#status"), "the demo's end", timeout_s=LONG_S)
                assert len(page.js(results)) == 2, "what it said stays"
            output = demo.communicate()[0]
            assert demo.returncode == 0, output
        finally:
            demo.terminate()
    assert not (DEFAULT_ROOT / name).exists()
    with chromium((tmp_path / "demo" / "latest" / "live-view.html").as_uri()) as page:
        page.js("const t = document.querySelector('#time'); t.value = t.max; t.dispatchEvent(new Event('input'))")
        page.until_text("#training", lambda text: text.count("Cutting ") == 2)
        page.one("#steps canvas")
        assert page.problems() == []

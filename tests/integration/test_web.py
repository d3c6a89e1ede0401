"""``mrc web`` on a real fabric: what the page shows of it, behind its back and by its own clicks, in a real browser."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from controller.client import ControllerClient
from mrc_lab.fabric.daemon import bring_up, take_down
from tests.integration.names import own
from tests.mrc_lab.web.browser import Page, chromium
from tests.waiting import until
from topologies import addressing
from topologies.clos import multi_plane_clos
from topologies.emulation.run_directory import RunDirectory

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="bringing up a fabric needs root")]
MRC = Path(sys.executable).with_name("mrc")
LINK = "t0-0:t1-1@p0"
DRAWN = f'[data-name="{LINK}"]'


class Web:
    """A fabric that is up, and the process that serves its page."""

    def __init__(self, name: str, *more: str) -> None:
        self.fabric = multi_plane_clos(name, hosts=4, planes=2, t0=2, t1=2, rate_bps=20_000_000)
        bring_up(self.fabric, "embedded")
        self.process = subprocess.Popen(
            [MRC, "web", name, "--listen", "127.0.0.1:0", *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.page = self.process.stdout.readline().split()[-1]

    def interface(self, link: str) -> str:
        return addressing.interface_name(self.fabric, self.fabric.link(link).switch_end)

    def set_link(self, link: str, state: str) -> None:
        subprocess.run(["ip", "link", "set", self.interface(link), state], check=True)

    def cut(self, link: str) -> None:
        """Take a link down behind the page's back, and wait until browsers are sent the event."""
        where = urlsplit(self.page)
        connection = HTTPConnection(where.hostname or "", where.port, timeout=60)
        token = parse_qs(where.query)["token"][0]
        connection.request("GET", "/records", headers={"Authorization": f"Bearer {token}"})
        with closing(connection), connection.getresponse() as stream:
            assert stream.readline().startswith(b"data: ")
            self.set_link(link, "down")
            for line in stream:
                if line.startswith(b"data: ") and json.loads(line[6:]).get("event", [])[:2] == ["link down", link]:
                    return
        pytest.fail("the stream ended")

    def act(self, request: dict[str, Any]) -> dict[str, Any]:
        """An action as a program requests it."""
        where = urlsplit(self.page)
        connection = HTTPConnection(where.hostname or "", where.port, timeout=30)
        token = parse_qs(where.query)["token"][0]
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", "/actions", json.dumps(request), headers)
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
        take_down(self.fabric.name)


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    one = Web(own("web"))
    try:
        yield one
    finally:
        one.end()


@pytest.fixture(scope="module")
def page(web: Web) -> Iterator[Page]:
    with chromium(web.page) as opened:
        opened.until_text("#status", lambda text: "live" in text)
        opened.one(DRAWN)
        yield opened


def cells(page: Page, letter: str) -> int:
    return int(page.js("return document.querySelectorAll(`#pairs .ev-${arguments[0]}`).length", letter))


def test_write_started_on_the_page_is_seen_on_links_and_paths(web: Web, page: Page) -> None:
    page.js("document.querySelector('#write-size').value = String(256 << 20)")
    page.one("#write button").click()
    page.until_text("#done-command", lambda text: f"mrc shell {web.fabric.name} -c 'write h1 h3 256M'" in text)
    until(lambda: cells(page, "g") >= 4, "paths from h1 to h3")
    until(lambda: "level-0" not in page.classes('[data-name="h1@p0"]'), "load on the port of h1")
    assert "level-0" in page.classes('[data-name="h2@p0"]')
    page.until_text("#figures", lambda text: "Mb/s" in text)


def test_link_clicked_down_takes_its_paths_out_of_use_and_comes_back(web: Web, page: Page) -> None:
    page.click_drawing(LINK)
    page.one("#take-down").click()
    until(lambda: "down" in page.classes(DRAWN), "the link to be drawn down")
    with ControllerClient(RunDirectory(web.fabric.name).controller_socket) as controller:
        assert [record.links for record in controller.faults()] == [(LINK,)]
        until(lambda: cells(page, "b") > 0, "paths to be out of use")
        page.until_text("#events", lambda text: "out of use" in text)
        page.one("#bring-back").click()
        until(lambda: "down" not in page.classes(DRAWN), "the link to be drawn up")
        until(lambda: controller.faults() == [], "the fault to be over")
    until(lambda: cells(page, "b") == 0, "the paths to be back")
    page.until_text("#events", lambda text: "back in use" in text)


def test_link_taken_down_by_ip_is_shown_and_brought_back_on_the_page(web: Web, page: Page) -> None:
    web.set_link(LINK, "down")
    until(lambda: "down" in page.classes(DRAWN), "the link to be drawn down")
    page.click_drawing(LINK)
    page.one("#bring-back").click()
    until(lambda: "down" not in page.classes(DRAWN), "the link to be drawn up")


def test_transfer_is_stopped_and_its_bytes_were_right(web: Web, page: Page) -> None:
    page.one("#jobs .running button").click()
    page.until_text("#jobs", lambda text: "stopped after" in text and "every byte correct" in text)


def test_all_reduce_runs_to_its_end(web: Web, page: Page) -> None:
    page.one("#all-reduce button").click()
    page.until_text("#jobs", lambda text: "all-reduce over all hosts" in text)
    page.until_text("#events", lambda text: "transfer" in text and "all-reduce" in text)
    assert "failed" not in page.text("#jobs")


def test_program_injects_and_undoes_a_fault(web: Web, page: Page) -> None:
    answer = web.act({"do": "fault", "words": ["t1-0@p1", "blackhole"]})
    assert answer["command"] == f"sudo mrc fault add {web.fabric.name} t1-0@p1 blackhole"
    until(lambda: "faulty" in page.classes('[data-name="t1-0@p1"]'), "the switch to be drawn as faulty")
    web.act({"do": "undo"})
    until(lambda: "faulty" not in page.classes('[data-name="t1-0@p1"]'), "the fault to be gone")


def test_stopped_browser_does_not_stop_the_fabrics_traffic(web: Web, page: Page) -> None:
    process = page.driver.service.process
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
    browser = int(children.stdout.split()[0])
    subprocess.run(["kill", "-STOP", str(browser)], check=True)
    try:
        words = [MRC, "shell", web.fabric.name, "-c", "write h2 h4 4M"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        subprocess.run(["kill", "-CONT", str(browser)], check=True)
    page.until_text("#status", lambda text: "live" in text)


def test_server_ends_with_a_sentence_when_its_fabric_is_taken_down(web: Web, page: Page) -> None:
    take_down(web.fabric.name)
    printed, problem = web.process.communicate()
    assert web.process.returncode == 3
    assert f"Fabric {web.fabric.name} was taken down" in problem
    assert "Traceback" not in printed + problem
    page.until_text("#status", lambda text: "not connected" in text)


def test_ctrl_c_ends_the_server_quietly_and_writes_its_recording(tmp_path: Path) -> None:
    file = tmp_path / "run.html"
    one = Web(own("webint"), "--record", str(file))
    try:
        one.cut(LINK)
        one.process.send_signal(signal.SIGINT)
        printed, problem = one.process.communicate()
        assert one.process.returncode == 130
        assert "Traceback" not in printed + problem
        assert f"recorded: {file}" in printed
        with chromium(file.as_uri()) as opened:
            opened.one(DRAWN)
            opened.one("#next-event").click()
            until(lambda: "down" in opened.classes(DRAWN), "the link to be drawn down")
    finally:
        one.end()


def test_addresses_off_loopback_are_refused_without_token_and_tls() -> None:
    one = own("webaddr")
    fabric = multi_plane_clos(one, hosts=2, planes=1, t0=1, t1=0, rate_bps=20_000_000)
    bring_up(fabric, "embedded")
    try:
        done = subprocess.run([MRC, "web", one, "--listen", "0.0.0.0:0"], capture_output=True, text=True, check=False)
        assert done.returncode == 3
        assert "requires a token and TLS" in done.stderr
    finally:
        take_down(one)


def test_fabric_brought_up_with_its_page_takes_the_page_down_with_it() -> None:
    name = own("webup")
    words = [MRC, "up", name, "--web", "--hosts", "2", "--planes", "1", "--t1", "1", "--rate", "20M"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        assert done.returncode == 0, done.stderr
        with chromium(done.stdout.split()[-1]) as opened:
            opened.until_text("#fabric-name", lambda text: text == name)
            take_down(name)
            opened.until_text("#status", lambda text: "not connected" in text)
        until(lambda: not _processes(f"mrc_lab.web {name}"), "the page's server to end")
    finally:
        take_down(name)


def test_prompt_with_its_page_ends_the_page() -> None:
    name = own("webprompt")
    words = [MRC, "shell", "--name", name, "--web", "--hosts", "2", "--planes", "1", "--t1", "1", "--rate", "20M"]
    done = subprocess.run([*words, "-c", "links"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "/?token=" in done.stdout
    assert not _processes(f"mrc_lab.web {name}")


def _processes(words: str) -> str:
    return subprocess.run(["pgrep", "-f", words], capture_output=True, text=True, check=False).stdout

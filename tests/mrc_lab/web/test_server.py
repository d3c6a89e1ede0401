"""The server of the live view against browsers that are hostile, slow, or gone."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse

import pytest

from mrc_lab.web import access, feed, server
from tests.mrc_lab.web.fake_fabric import TOKEN, Served, served
from tests.waiting import TIMEOUT_S, until

LINK = "t0-0:t1-1@p0"


@pytest.fixture(scope="module")
def one() -> Iterator[Served]:
    with served() as running:
        yield running


def ask(
    running: Served, method: str, path: str, headers: dict[str, str] | None = None, body: str | bytes | None = None
) -> tuple[HTTPResponse, str]:
    connection = HTTPConnection("127.0.0.1", running.server.port, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response, response.read().decode()
    finally:
        connection.close()


def cookie(running: Served) -> dict[str, str]:
    return {"Cookie": f"mrc-web-{running.server.port}={TOKEN}"}


def from_page(running: Served) -> dict[str, str]:
    origin = f"http://127.0.0.1:{running.server.port}"
    return {**cookie(running), "Origin": origin, "Content-Type": "application/json"}


DOWN = json.dumps({"do": "fault", "words": [LINK, "down"]})


# ---- the token


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/records", "/nothing", "/?token=", "/?token=wrong"])
def test_nothing_is_served_without_the_token(one: Served, path: str) -> None:
    response, text = ask(one, "GET", path)
    assert response.status == 403
    assert "token" in json.loads(text)["error"]
    assert TOKEN not in text


def test_token_in_the_address_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(one: Served) -> None:
    response, text = ask(one, "GET", f"/?token={TOKEN}")
    assert response.status == 200
    assert "<!doctype html>" in text
    assert TOKEN not in text
    given = response.headers["Set-Cookie"]
    assert given.startswith(f"mrc-web-{one.server.port}={TOKEN};")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in given.split(";")}
    again, _ = ask(one, "GET", "/", cookie(one))
    assert again.status == 200
    assert again.headers["Set-Cookie"] is None


def test_token_in_the_address_opens_the_page_and_nothing_else(one: Served) -> None:
    assert ask(one, "GET", f"/records?token={TOKEN}")[0].status == 403
    headers = {key: value for key, value in from_page(one).items() if key != "Cookie"}
    assert ask(one, "POST", f"/actions?token={TOKEN}", headers, DOWN)[0].status == 403


def test_token_is_not_logged(one: Served, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    with caplog.at_level(logging.DEBUG):
        ask(one, "GET", f"/?token={TOKEN}")
        ask(one, "POST", "/actions", from_page(one), "{")
        for raw in (f"GET /?token={TOKEN} HTTP/9\r\n\r\n", f"NONSENSE\x00 /?token={TOKEN}\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", one.server.port), 5) as peer:
                peer.sendall(raw.encode())
                peer.recv(4096)
    printed = capfd.readouterr()
    assert TOKEN not in caplog.text + printed.out + printed.err


# ---- other pages


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", "[::1", ""])
def test_requests_under_another_name_are_refused(one: Served, host: str) -> None:
    response, text = ask(one, "GET", "/", {**cookie(one), "Host": host})
    assert response.status in (400, 403)
    assert "<!doctype html>" not in text


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1:9000", "[::1]:9000"])
def test_page_is_served_through_a_forwarded_port(one: Served, host: str) -> None:
    assert ask(one, "GET", "/", {**cookie(one), "Host": host})[0].status == 200
    origin = {"Host": host, "Origin": f"http://{host}"}
    assert ask(one, "POST", "/actions", {**from_page(one), **origin}, '{"do": "nothing"}')[0].status == 400


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"Origin": "http://evil.example"}, "another page"),
        ({"Origin": "null"}, "another page"),
        ({"Origin": "http://127.0.0.1:1"}, "another page"),
        ({"Origin": ""}, "another page"),
        ({"Content-Type": "text/plain"}, "must be JSON"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "must be JSON"),
    ],
)
def test_actions_of_other_pages_are_refused(one: Served, changes: dict[str, str], problem: str) -> None:
    before = len(one.fake.requests)
    response, text = ask(one, "POST", "/actions", {**from_page(one), **changes}, DOWN)
    assert response.status == 403
    assert problem in json.loads(text)["error"]
    assert len(one.fake.requests) == before


def test_action_without_an_origin_needs_the_token_in_a_header(one: Served) -> None:
    headers = {key: value for key, value in from_page(one).items() if key != "Origin"}
    assert ask(one, "POST", "/actions", headers, DOWN)[0].status == 403
    bearer = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    response, text = ask(one, "POST", "/actions", bearer, '{"do": "fault", "words": ["t0-1:t1-1@p0", "up"]}')
    assert response.status == 200, text


def test_get_changes_nothing(one: Served) -> None:
    before = len(one.fake.requests)
    for path in ("/actions", "/actions?do=fault&words=all", f"/?do=undo&token={TOKEN}"):
        ask(one, "GET", path, from_page(one))
    assert ask(one, "GET", "/actions", from_page(one))[0].status == 405
    assert len(one.fake.requests) == before


def test_every_answer_forbids_scripts_from_elsewhere_and_frames(one: Served) -> None:
    for path, headers in (("/", {}), ("/", cookie(one)), ("/static/main.js", cookie(one)), ("/none", cookie(one))):
        response, _ = ask(one, "GET", path, headers)
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"


# ---- requests that are wrong


@pytest.mark.parametrize(
    "body", ["", "{", "[]", "7", '"x"', '{"do": 7}', '{"do": "fault", "words": []}', "[" * 5000, b"\xff\xfe", "null"]
)
def test_wrong_requests_get_a_sentence(one: Served, body: str) -> None:
    response, text = ask(one, "POST", "/actions", from_page(one), body)
    assert response.status == 400, text
    assert json.loads(text)["error"].endswith((".", "that"))
    assert "Traceback" not in text


def test_large_request_is_refused(one: Served) -> None:
    body = json.dumps({"do": "fault", "words": ["x" * access.MAX_BODY]})
    response, text = ask(one, "POST", "/actions", from_page(one), body)
    assert response.status == 413
    assert "error" in json.loads(text)


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static//etc/passwd",
        "/static/uplot/../main.js/",
        "/static/",
    ],
)
def test_files_are_those_of_the_page_only(one: Served, path: str) -> None:
    assert ask(one, "GET", path, cookie(one))[0].status == 404


# ---- connections


def _connect(running: Served, text: str = "") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", running.server.port), timeout=TIMEOUT_S)
    connection.sendall(text.encode())
    return connection


_BEGUN = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "


@pytest.mark.parametrize("sent", ["", _BEGUN, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + _BEGUN])
def test_connection_that_sends_no_whole_request_is_closed(monkeypatch: pytest.MonkeyPatch, sent: str) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0.2)
    with served() as running, _connect(running, sent) as connection:
        while connection.recv(4096):
            pass  # the answer to the first request


def test_action_that_comes_too_slowly_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_lab.web.server.BODY_TIMEOUT_S", 0.2)
    with served() as running:
        headers = "".join(f"{name}: {value}\r\n" for name, value in from_page(running).items())
        head = f"POST /actions HTTP/1.1\r\nHost: 127.0.0.1:{running.server.port}\r\n{headers}Content-Length: 50\r\n\r\n"
        with _connect(running, head + "{") as connection:
            assert b" 408 " in connection.recv(100)
        assert running.fake.requests == []


def test_idle_connections_make_room_for_new_ones_and_streams_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 8)
    with served() as running:
        browser = Browser(running)
        received = browser.records()
        next(received)
        idle = []
        for _ in range(40):
            idle.append(_connect(running))
            assert ask(running, "GET", "/", cookie(running))[0].status == 200
        assert idle[0].recv(1) == b""
        running.call(lambda: running.fake.feed.event("test", "", "still here"))
        assert any(record.get("event") == ["test", "", "still here"] for record in received)
        browser.close()
        for connection in idle:
            connection.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json; charset=zlib"},
        {"Content-Type": "application/json; charset=rot13"},
        {"Content-Type": "application/json; charset=idna"},
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "deflate"},
        {"Content-Encoding": "br"},
    ],
)
@pytest.mark.parametrize("body", [b"[]", b"\xff\xfe", b""])
def test_bodies_in_other_codings_are_refused_with_the_headers_for_security(
    one: Served, headers: dict[str, str], body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    response, text = ask(one, "POST", "/actions", {**from_page(one), **headers}, body)
    assert 400 <= response.status < 500
    assert json.loads(text)["error"]
    for name, value in access.HEADERS.items():
        assert response.headers[name] == value
    assert not [record for record in caplog.records if record.exc_info]


def test_text_that_is_no_utf8_is_refused(one: Served) -> None:
    response, text = ask(one, "POST", "/actions", from_page(one), b"\xff\xfe")
    assert response.status == 400
    assert "not JSON" in text


def test_head_of_the_stream_has_no_body_and_ends(one: Served) -> None:
    lines = ["HEAD /records HTTP/1.1", "Host: 127.0.0.1", f"Cookie: {cookie(one)['Cookie']}", "Connection: close"]
    with _connect(one, "\r\n".join([*lines, "", ""])) as connection:
        answer = b""
        while data := connection.recv(4096):
            answer += data
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"text/event-stream" in head
    assert body == b""


def test_what_fails_unexpectedly_has_the_headers_for_security(one: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one.server, "_file", lambda name: 1 // 0)
    response, text = ask(one, "GET", "/", cookie(one))
    assert response.status == 500
    assert "has printed says why" in text
    assert response.headers["Content-Security-Policy"]


# ---- the stream


class Browser:
    """A reader of the stream of records."""

    def __init__(self, running: Served, *, window: int = 0) -> None:
        self.socket = socket.socket()
        if window:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.socket.settimeout(10)
        self.socket.connect(("127.0.0.1", running.server.port))
        lines = ["GET /records HTTP/1.1", "Host: 127.0.0.1", f"Cookie: {cookie(running)['Cookie']}", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        self._stream = self.socket.makefile("rb")

    def records(self) -> Iterator[dict[str, object]]:
        for line in self._stream:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def close(self) -> None:
        self._stream.close()
        self.socket.close()


def test_stream_begins_with_layout_and_whole_state_and_goes_on_with_changes() -> None:
    with served() as running:
        browser = Browser(running)
        records = browser.records()
        first, second = next(records), next(records)
        assert first["layout"]["fabric"] == "lab"  # type: ignore[index]
        assert len(second["whole"]["links"]) == 24  # type: ignore[index]
        running.call(lambda: running.fake.set_link(LINK, up=False))
        change = next(record for record in records if "state" in record)
        assert list(change["state"]["links"]) == [LINK]  # type: ignore[index]
        assert change["state"]["links"][LINK] == [False, 0, 0]  # type: ignore[index]
        assert change["state"]["pairs"]["h1>h3"][0] == "GbGGGGGG"  # type: ignore[index]
        event = next(record for record in records if "event" in record)
        assert event["event"] == ["link down", LINK, ""]
        browser.close()


def test_browser_that_is_gone_is_forgotten() -> None:
    with served() as running:
        browser = Browser(running)
        next(browser.records())
        assert running.call(lambda: running.fake.feed.viewers) == 1
        browser.close()
        until(lambda: running.call(lambda: _changed(running)) == 0, "the viewer to be forgotten")


def _changed(running: Served) -> int:
    """Publish something, since a closed connection is noticed when something is sent; returns how many watch."""
    running.fake.feed.event("test", "", "something")
    return running.fake.feed.viewers


def test_browser_that_takes_nothing_is_disconnected_and_the_others_lose_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mrc_lab.web.server.SEND_TIMEOUT_S", 0.3)
    with served() as running:
        stopped, alive = Browser(running, window=2048), Browser(running)
        until(lambda: running.call(lambda: running.fake.feed.viewers) == 2, "both to watch")

        def fill() -> int:
            for _ in range(50):
                running.fake.feed.event("test", "", "x" * 2000)
            return running.fake.feed.viewers

        received = alive.records()

        def one_left() -> bool:
            viewers = running.call(fill)
            for record in received:  # keeps up
                if record.get("event", ["", "", ""])[2] == "x" * 2000:  # type: ignore[index]
                    break
            return viewers == 1

        until(one_left, "the stopped browser to be disconnected")
        running.call(lambda: running.fake.set_link(LINK, up=False))
        assert any(record.get("event") == ["link down", LINK, ""] for record in received)
        stopped.close()
        alive.close()


def test_too_many_browsers_are_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MAX_VIEWERS", 2)
    with served() as running:
        browsers = [Browser(running) for _ in range(2)]
        for browser in browsers:
            next(browser.records())
        response, text = ask(running, "GET", "/records", cookie(running))
        assert response.status == 503
        assert "close a tab" in json.loads(text)["error"]
        for browser in browsers:
            browser.close()


def test_stream_ends_with_the_reason_for_the_servers_end() -> None:
    with served() as running:
        browser = Browser(running)
        records = browser.records()
        next(records)
        running.stop("Fabric lab was taken down.")
        *_, last = records
        assert last["event"] == ["ended", "", "Fabric lab was taken down."]
        browser.close()


def test_opening_is_reported_once_and_only_for_a_browser_that_shows_the_page() -> None:
    opened: list[int] = []
    with served() as running:
        running.call(lambda: setattr(running.server, "_opened", lambda: opened.append(1)))
        assert ask(running, "GET", "/records")[0].status == 403
        ask(running, "GET", "/", cookie(running))
        assert opened == []
        browsers = [Browser(running) for _ in range(2)]
        for browser in browsers:
            next(browser.records())
        assert opened == [1]
        for browser in browsers:
            browser.close()

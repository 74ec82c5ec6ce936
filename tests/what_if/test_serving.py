"""`clustersim serve` without a browser: what ends it at once, and which requests and evaluations it stops."""

from __future__ import annotations

import html
import time

import pytest

from clustersim.cli import main, serving
from clustersim.what_if.app.guard import failure, hosts_of, title_markup
from clustersim.what_if.app.server import HOST, listen
from clustersim.what_if.app.turns import LIMIT_S, Superseded, TooLong, Turns


def test_without_the_extra_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving, "find_spec", lambda name: None)
    begin_s = time.perf_counter()
    assert main(["serve", "overlap-10gbe"]) == 3
    assert time.perf_counter() - begin_s < 1.0
    assert "pip install 'clustersim[serve]'" in capsys.readouterr().err


def test_a_port_in_use_is_one_line_and_exits_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving, "find_spec", lambda name: name)
    with listen(0) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "overlap-10gbe", "--port", str(port)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        f"port {port}: address already in use; name another by --port, or 0 for any that is free"
    ]


def test_it_listens_to_this_machine_only() -> None:
    with listen(0) as listener:
        assert listener.getsockname()[0] == HOST == "127.0.0.1"


def test_a_later_turn_of_the_same_page_stops_an_earlier_one() -> None:
    turns = Turns()
    first, other = turns.check_of({"page": "a", "turn": 0}), turns.check_of({"page": "b", "turn": 0})
    first()
    second = turns.check_of({"page": "a", "turn": 1})
    second()
    other()
    with pytest.raises(Superseded):
        first()


def test_an_evaluation_ends_at_the_limit() -> None:
    now_s = [0.0]
    check = Turns(lambda: now_s[0]).check_of({"page": "a", "turn": 0})
    now_s[0] = LIMIT_S
    check()
    now_s[0] = LIMIT_S + 1
    with pytest.raises(TooLong, match="no limit"):
        check()


@pytest.mark.parametrize("state", [None, [], {"page": {}, "turn": "many"}, {"turn": None}])
def test_whatever_a_page_sends_is_a_turn(state: object) -> None:
    Turns().check_of(state)()


@pytest.mark.parametrize("name", ["</title><script>alert(1)</script>", "{%scripts%}", "a & b"])
def test_the_title_has_no_markup(name: str) -> None:
    written = title_markup(name)
    assert not set("<>{}") & set(written)
    assert html.unescape(written) == name


def test_the_port_of_http_is_left_out_of_the_host() -> None:
    assert "127.0.0.1" in hosts_of(80)
    assert "127.0.0.1" not in hosts_of(8050)


def test_a_request_that_fails_is_one_line() -> None:
    assert failure(KeyError("x"), "POST") == ("The request cannot be read.", 400)
    assert failure(FileNotFoundError(), "GET")[1] == 404
    too_long = Exception()
    too_long.code = 413  # type: ignore[attr-defined]
    assert failure(too_long, "POST") == ("The request is too long.", 413)

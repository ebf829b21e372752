"""The answer of `pgdrag twin check` for a terminal, a browser and a program."""

from __future__ import annotations

import json
from dataclasses import replace

from pgdrag.report.terminal import blocks_as_text
from pgdrag.report.twin_check_page import check_blocks, render_check_html, render_check_json
from pgdrag.twins.fidelity import Fidelity, TwinCheck, fidelity
from twin_statements import ORIGINAL, READ, WRITE, called, twin_of

OFF = fidelity(
    ORIGINAL,
    twin_of(
        called(WRITE, calls=50, shared_hit=10, wal_bytes=400), called(READ, calls=50, shared_hit=4)
    ),
)


def check(found: Fidelity) -> TwinCheck:
    return TwinCheck(
        "shop.twin", "2026-11-26", "15.4", "18.6", 0.5, 30.0, found, ("role x is not here",)
    )


def words(found: Fidelity) -> str:
    return " ".join(blocks_as_text(check_blocks(check(found))).split())


def test_the_verdict_comes_first_and_what_is_off_is_marked() -> None:
    text = words(OFF)
    assert text.startswith("The twin is not faithful: only statements that take 10 %")
    assert "! 2.00×" in text
    assert "UPDATE t SET v = $1 WHERE k = $2 50 % 1.00×" in text
    assert "Role x is not here." in text


def test_a_load_for_which_there_was_too_little_time_is_said_beside_the_verdict() -> None:
    hurried = replace(check(OFF), hurried=("the server was too slow",))
    text = " ".join(blocks_as_text(check_blocks(hurried)).split())
    assert 0 < text.index("The server was too slow.") < text.index("Load Statement")
    assert "The server was too slow." in render_check_html(hurried)
    assert json.loads(render_check_json(hurried))["hurried"] == ["the server was too slow"]


def test_of_many_statements_the_first_ten_are_shown_and_the_rest_counted() -> None:
    first = OFF.statements[0]
    many = replace(
        OFF, statements=tuple(replace(first, number=x, share=1 / 13) for x in range(1, 14))
    )
    assert "and 3 more with 23 % of the time, 3 of them not like the original" in words(many)


def test_the_page_has_all_of_them_and_what_a_twin_cannot_tell() -> None:
    page = render_check_html(check(OFF))
    assert "UPDATE t SET v" in page
    assert "What a twin cannot tell" in page


def test_json_has_the_verdict_and_the_statements_that_are_off() -> None:
    document = json.loads(render_check_json(check(OFF)))
    assert document["verdict"] == "not faithful"
    assert document["off"] == {"1": ["WAL bytes 2×"]}
    assert document["fidelity"]["statements"][0]["amounts"][0]["name"] == "rows"

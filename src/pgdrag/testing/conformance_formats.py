"""What must every format of settings do, wherever its settings are? A suite for pytest.

Subclass it in a test module; it asks for one fixture::

    class TestEveryFormat(FormatConformance):
        @pytest.fixture(params=list(all_formats().values()), ids=list(all_formats()))
        def format_class(self, request): ...             # type[Format]

Nothing here needs pytest to be installed.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pgdrag.errors import ConfError
from pgdrag.experiment.formats import Format, Source, all_formats
from pgdrag.units import to_base_integer

PATH = Path("/nowhere/example")


class FormatConformance:
    """Claims about one format, made on its example."""

    def test_it_says_what_it_is(self, format_class: type[Format]) -> None:
        assert format_class.name
        assert format_class.summary
        assert "\n" not in format_class.summary

    def test_its_example_is_recognised_and_by_no_other(self, format_class: type[Format]) -> None:
        source = Source(PATH, format_class.example)
        assert format_class().recognises(source)
        others = [x for x in all_formats().values() if x is not format_class and not x.is_fallback]
        assert [x.name for x in others if x().recognises(source)] == []

    def test_its_example_sets_work_mem_where_it_says_so(self, format_class: type[Format]) -> None:
        found = format_class().read(Source(PATH, format_class.example))
        assert found.format == format_class.name
        (one,) = (x for x in found.given if x.name == "work_mem")
        assert to_base_integer(one.value, "kB") == 65_536
        assert one.place.file == PATH
        assert "work_mem" in format_class.example.splitlines()[one.place.line - 1].lower()

    def test_a_damaged_example_is_read_or_refused_with_a_place(
        self, format_class: type[Format]
    ) -> None:
        example, kind = format_class.example, format_class()
        for at in range(len(example)):
            for text in (example[:at], f"{example[:at]}\0{example[at:]}", example[at:]):
                source = Source(PATH, text)
                with suppress(ConfError):
                    if kind.recognises(source):
                        kind.read(source)

"""Writes the generated pages of docs/reference again: `make docs`."""

from pathlib import Path

from documentation.reference import PAGES

if __name__ == "__main__":
    folder = Path(__file__).parents[1] / "docs" / "reference"
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")

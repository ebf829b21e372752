"""Writes the generated pages of docs/reference again: `make docs`."""

from pathlib import Path

from documentation.reference import PAGES, SCHEMAS, schemas

if __name__ == "__main__":
    folder = Path(__file__).parents[1] / "docs" / "reference"
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")
    (folder / SCHEMAS).mkdir(exist_ok=True)
    for name, text in schemas().items():
        (folder / name).write_text(text, encoding="utf-8")

"""Findings as a document: what a run found, for the terminal, the browser, an issue or a program.

`sections/` turns findings into blocks (`document.py`), one file a section; `html.py`, `terminal.py`
and `markdown.py` print blocks and know nothing of findings. `json.py` writes the findings themselves.
The same findings always give the same bytes.
"""

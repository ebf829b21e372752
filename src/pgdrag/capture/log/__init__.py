"""What does a server's log tell of its transactions? Read once, from its beginning to its end, in bounded memory.

`files.py` opens logs, `formats.py` cuts them into messages, `texts.py` finds the statement of a text, `sessions.py` puts
statements together to transactions, `shapes.py` these to shapes, `values.py` counts parameters; `reading.py` does it all.
"""

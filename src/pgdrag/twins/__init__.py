"""What is in a twin: the schema, statistics and workload of a server, without its data?

The values (`model.py`), the file (`file.py`), the schema as statements (`ddl.py`), and what takes the place of
values (`tokens.py`). Nothing here reaches a server.
"""

from pgdrag.twins.file import read_twin, twin_bytes
from pgdrag.twins.model import Twin

__all__ = ["Twin", "read_twin", "twin_bytes"]

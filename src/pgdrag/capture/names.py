"""Which column does a name in an SQL text mean? As far as the tables of the text, or the whole schema, tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from pgdrag.twins.constants import Chain

Key = tuple[str, str, str]  # schema, relation and column; of a domain: schema, "", name
Resolve = Callable[[Chain], Key | None]


def nowhere(chain: Chain) -> Key | None:
    """Return no column."""
    return None


class ColumnNames:
    """The columns of a database, by their names."""

    def __init__(self, columns: Iterable[Key]) -> None:
        self._columns = frozenset(columns)
        self._by_name: dict[str, list[Key]] = defaultdict(list)
        self._relations: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for key in sorted(self._columns):
            self._by_name[key[2]].append(key)
            if key[:2] not in self._relations[key[1]]:
                self._relations[key[1]].append(key[:2])

    def of_table(self, schema: str, table: str) -> Resolve:
        """Return a lookup of the columns of one table, with any qualifier."""

        def resolve(chain: Chain) -> Key | None:
            key = (schema, table, chain[-1])
            return key if key in self._columns else None

        return resolve

    def named(self, chain: Chain) -> list[Key]:
        """Return the columns of any table that a name can refer to."""
        keys = self._by_name.get(chain[-1], [])
        return [x for x in keys if len(chain) < 2 or x[1] == chain[-2]] or keys

    def among(self, tables: Mapping[str, Chain]) -> Resolve:
        """Return what finds columns of the tables of a text, by the names that these have there."""
        known = {alias: self._relation(chain) for alias, chain in tables.items()}

        def resolve(chain: Chain) -> Key | None:
            if len(chain) >= 2:
                relation = known.get(chain[-2]) or self._relation(chain[:-1])
                relations = [relation] if relation is not None else []
            else:
                relations = [x for x in dict.fromkeys(known.values()) if x is not None]
            keys = [(*x, chain[-1]) for x in relations if (*x, chain[-1]) in self._columns]
            return keys[0] if len(keys) == 1 else None

        return resolve

    def _relation(self, chain: Chain) -> tuple[str, str] | None:
        found = self._relations.get(chain[-1], [])
        if len(chain) >= 2:
            found = [x for x in found if x[0] == chain[-2]]
        # Which one an unqualified name means depends on who says it.
        return found[0] if found else None

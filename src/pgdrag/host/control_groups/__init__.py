"""How are processes confined to a share of a machine? Trees of control groups, and what a group may limit.

Version 1 has a tree for each kind of resource, version 2 one for all; a host may have both, each with some
of the controllers: cgroups(7).
"""

from __future__ import annotations

from pgdrag.host.control_groups.hierarchies import PREFIX as PREFIX
from pgdrag.host.control_groups.hierarchies import Hierarchy as Hierarchy
from pgdrag.host.control_groups.hierarchies import hierarchies as hierarchies
from pgdrag.host.control_groups.hierarchies import hierarchy_with as hierarchy_with
from pgdrag.host.control_groups.hierarchies import members as members
from pgdrag.host.control_groups.hierarchies import remove_group as remove_group
from pgdrag.host.control_groups.limits import LIMITS as LIMITS
from pgdrag.host.control_groups.limits import Limit as Limit
from pgdrag.host.control_groups.limits import Write as Write
from pgdrag.host.control_groups.limits import effective_processors as effective_processors
from pgdrag.host.control_groups.limits import first_writes as first_writes
from pgdrag.host.control_groups.limits import processors_of as processors_of

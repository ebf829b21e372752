"""Where a PostgreSQL comes from, and the life of a throw-away cluster.

In the order of use: `scratch` (where it lives), `sweep` (what dead processes left there), `binaries`
(which PostgreSQL), `cluster` (make, configure, start, stop), `channel` (how it is observed),
`snapshot` (a dataset made once, restored often), `catalog` (what its settings are).
"""

"""How is an experiment run on a server that exists, and what may it do there?

An existing server is only read and loaded, unless `--allow-change` names what may change. Every change is
in the undo journal before it is made. What would be changed, and what is out of reach and why, is known beforehand.
"""

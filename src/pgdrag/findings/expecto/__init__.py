"""How would pg_expecto read a trial, and what is left of it where chance is reckoned with?

`published` has its formulas, `sound` a correlation that neighbouring intervals do not mislead, and
`view` puts both on one trial. The formulas were taken from a description of them; the source was not at
hand. docs/method.md shows why trailing medians are used nowhere else.
"""

"""How would pg_expecto read a trial, and what remains with sound statistics?

`published` has its formulas, `sound` a correlation that allows for autocorrelation, and `view` applies both to
one trial. The formulas are from a description of pg_expecto, not its source. docs/method.md explains why
pgdrag uses trailing medians nowhere else.
"""

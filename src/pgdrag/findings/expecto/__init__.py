"""How would pg_expecto read a trial, and what remains with sound statistics?

`published` has its formulas, and `analysis` applies them to one trial, beside a correlation that allows for
autocorrelation. docs/method.md explains why pgdrag uses trailing medians nowhere else.
"""

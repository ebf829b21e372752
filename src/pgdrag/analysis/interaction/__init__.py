"""Do factors act on each other? The combinations of a grid, read two factors at a time.

`axes` has the levels that are crossed, `findings` what is handed to the report, `words` its sentences;
`by_design.grid` puts a run's trials into them.
"""

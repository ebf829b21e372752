"""Which kinds of claims are there? One module each; being here registers it.

A kind is a subclass of `StatedClaim`: the keys of a `[[claims]]` table of an experiment file are its fields, and its
method `answer` answers it from a run's treatments. What is said of a moment that no window reaches is untestable for
all kinds alike (`analysis`).
"""

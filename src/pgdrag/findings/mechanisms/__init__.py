"""By what does a change slow the server down? A catalogue of mechanisms, tested against the evidence.

`catalogue` says what each mechanism must move, `ledger` where sessions' time went and into which
factors it falls apart, `signs` whether counters moved at all, and `find` puts them together.
"""

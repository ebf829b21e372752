"""What do the numbers say? Pure functions on values: no server, no clock, no files.

Start at `ladder.find`: it turns a run into `findings.Findings`. Below it, in the order the data
flows: `combine` (the trials of a rung as one), `counts` and `rates` (throughput and its interval),
`ratios` (slowdowns and verdicts), `movement` (evidence), `levels` (what was set in vain or undone),
`claims` (published numbers), `answer` (the sentence on top), all of them in the words of `wording`.

A comparison of two treatments: `pairs` (which trials belong together), `paired` (what pairs say),
`sequential` (how sure each look must be), `comparing` (is it decided?), and for its report
`quantities`, `comparison` and `comparison_words`. `by_design` has one file a design.
"""

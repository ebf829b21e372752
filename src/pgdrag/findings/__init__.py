"""What do the numbers say? Pure functions on values: no server, no clock, no files.

Start at `ladder.find`: it turns a run into `findings.Findings`. Below it, in the order the data
flows: `combine` (the trials of a rung as one), `counts` and `rates` (throughput and its interval),
`ratios` (slowdowns and verdicts), `movement` (evidence), `levels` (what was set in vain or undone),
`claims` (published numbers), `answer` (the sentence on top), all of them in the words of `wording`.

Designs that choose their next treatment by what they were told look at `readings`. The maths of each
is a folder: `comparison`, `ablation`, `bisection`, `screening`, `boundary`; what a run of it found is
said by its file in `by_design`.
"""

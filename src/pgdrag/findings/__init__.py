"""What do the numbers say? Pure functions on values: no server, no clock, no files.

Start at `find.find`: it turns a run into `values.Findings`. `combine` makes the trials of a treatment one, `compared`
says which treatments are compared with which, and each registered analysis (`analysis`) adds what it finds: claims,
levels, mechanisms, movements, plans, the driver's limits, the steps of a load, decay. `answer` is the sentence on top.

Designs that choose their next treatment by earlier results read `readings`; what a design found is in its own folder
under `designs`.
"""

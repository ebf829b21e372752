"""Which of a ladder's steps carries the whole? Each change alone, and the whole without it.

`arms` has the treatments that are run for it, `findings` what is handed to the report, `words` its sentences;
`by_design.ladder` puts a run's trials into them.
"""

"""Observations to keep: what a server that others use did, sample by sample, in one file of bounded size."""

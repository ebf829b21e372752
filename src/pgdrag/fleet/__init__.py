"""Trials on many machines: a coordinator leases each trial to a host, which runs it and answers once; see `coordinator`."""

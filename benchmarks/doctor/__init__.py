"""Does `pgdrag doctor` name the cause on live servers made sick one way each, and none on healthy ones?

`python -m benchmarks.doctor` (`make doctor`) starts one server after another, with a real load on it.
"""

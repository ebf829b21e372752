"""A page on this machine that shows runs while they happen and when they are over, and starts and stops them."""

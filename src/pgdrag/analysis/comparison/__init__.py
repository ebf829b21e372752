"""Is one treatment faster than the other? Pairs of trials, looked at again and again until they tell."""

"""What does the length of a hold do to throughput, what of it decides, and when is it back?"""

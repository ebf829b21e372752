"""Did throughput fall while the trial went on, how fast, and after which curve?"""

"""How did throughput change within a trial's window, and after which curve?"""

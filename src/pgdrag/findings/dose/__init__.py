"""How does throughput depend on the length of a hold, what decides, and when does throughput recover?"""

"""How long is the horizon held, seen through looks at intervals, and are two such distributions alike?"""

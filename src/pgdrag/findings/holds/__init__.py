"""How long is the horizon held, estimated from samples, and are two such distributions the same?"""

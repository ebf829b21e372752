"""Which few of many changes keep most of a slowdown, or keep a server from starting?"""

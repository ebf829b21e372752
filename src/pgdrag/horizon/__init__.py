"""How far back must a server keep old row versions: who holds it there, and how is that held on purpose?"""

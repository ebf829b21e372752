"""Are the plans of a twin without rows those of the original?"""

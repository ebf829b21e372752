"""How would the planner plan a twin's statements? On a throw-away server that has the original's statistics and sizes, and no rows."""

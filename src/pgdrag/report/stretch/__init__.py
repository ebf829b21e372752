"""What does a stretch of a server's life show? The same blocks for a page, a terminal and a wiki, and a compact text."""

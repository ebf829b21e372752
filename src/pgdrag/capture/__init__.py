"""How does a server become a twin? Its catalogs, statistics and activity are read, and values become tokens."""

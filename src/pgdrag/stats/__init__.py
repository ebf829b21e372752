"""Statistics on numbers: knows no treatment, no design and no sentence of the report."""

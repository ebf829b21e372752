"""What of the documentation is made from the code: pages of docs/reference, and the manual."""

"""What a release consists of, and how it is built: `make release`."""

"""What holds for all tests."""

from hypothesis import settings

# An example that takes long on a busy machine has found nothing.
settings.register_profile("pgdrag", deadline=None)
settings.load_profile("pgdrag")

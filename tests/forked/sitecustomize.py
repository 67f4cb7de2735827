"""Read by each Python that starts with this directory in its path: of some scripts, a nursery runs a copy instead."""

from tests import standing_in

standing_in.stand_in()

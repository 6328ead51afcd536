from random_families.t5 import *  # noqa: F401,F403
